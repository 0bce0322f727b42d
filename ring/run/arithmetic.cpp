#include "ring/run/arithmetic.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "ring/run/elementwise.hpp"

// Promises the compiler that loop iterations are independent. The output may be one of the inputs if each element is
// read before it is written; otherwise output and inputs must not overlap.
#ifdef __clang__
#define ANELLO_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define ANELLO_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#endif

// This file is compiled again for each instruction set: Highway includes it with other target options, and for each
// target the compiler vectorises the plain loops below. SSSE3 is left out as a target, because nearly all processors
// with SSSE3 also have SSE4 (since 2008).
#define HWY_DISABLED_TARGETS HWY_SSSE3
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ring/run/arithmetic.cpp"
#include <hwy/foreach_target.h>
// This include must come after the definitions above.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace anello::run::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kBlockElems = 256;  // half-precision numbers that are widened at once, in the first-level cache

// On targets without a conversion instruction, Highway 1.0 converts without rounding, and turns infinities into other
// numbers. Ranks with different CPUs would then get different results.
#undef ANELLO_HALF_INSTRUCTIONS
#define ANELLO_HALF_INSTRUCTIONS \
  ((HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET <= HWY_NEON))

void widen(const f16* from, float* to, std::size_t elems) {
  std::size_t i = 0;
#if ANELLO_HALF_INSTRUCTIONS
  const hn::ScalableTag<float> wide;
  const hn::Rebind<hwy::float16_t, decltype(wide)> half;
  const std::size_t lanes = hn::Lanes(wide);
  for (; i + lanes <= elems; i += lanes)
    hn::StoreU(hn::PromoteTo(wide, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i))), wide, to + i);
#endif
  for (; i < elems; i++) to[i] = float(from[i]);
}

void narrow(const float* from, f16* to, std::size_t elems) {
  std::size_t i = 0;
#if ANELLO_HALF_INSTRUCTIONS
  const hn::ScalableTag<float> wide;
  const hn::Rebind<hwy::float16_t, decltype(wide)> half;
  const std::size_t lanes = hn::Lanes(wide);
  for (; i + lanes <= elems; i += lanes)
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(wide, from + i)), half, reinterpret_cast<hwy::float16_t*>(to + i));
#endif
  for (; i < elems; i++) to[i] = f16(from[i]);
}

void widen(const bf16* from, float* to, std::size_t elems) {
  for (std::size_t i = 0; i < elems; i++) to[i] = std::bit_cast<float>(std::uint32_t(from[i].bits) << 16);
}

// Rounds like bf16's constructor, in a form that the compiler vectorises.
void narrow(const float* from, bf16* to, std::size_t elems) {
  for (std::size_t i = 0; i < elems; i++) {
    const auto bits = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    to[i].bits = std::uint16_t((from[i] == from[i] ? rounded : bits | 0x400000) >> 16);
  }
}

template <class T, class Reduction>
void combine(void* out, const void* left, const void* right, std::size_t elems) {
  auto* o = static_cast<T*>(out);
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  ANELLO_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < elems; i++) o[i] = Reduction::apply(a[i], b[i]);
}

template <class T, class Reduction>
void combine_twice(void* out, void* copy, const void* left, const void* right, std::size_t elems) {
  auto *o = static_cast<T*>(out), *c = static_cast<T*>(copy);
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  ANELLO_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < elems; i++) o[i] = c[i] = Reduction::apply(a[i], b[i]);
}

// Each product is rounded before it is added, so that the result equals that of two passes: scaling, then adding. So
// the compiler must not contract multiplication and addition into one instruction (FMA).
template <class T, bool kTwice>
void add_scaled_to(void* out, [[maybe_unused]] void* copy, const void* left, const void* right, std::size_t elems,
                   Factors by) {
  auto* o = static_cast<T*>(out);
  [[maybe_unused]] auto* c = static_cast<T*>(copy);
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  const T of_left(by.left), of_right(by.right), of_result(by.result);
  ANELLO_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < elems; i++) {
    o[i] = (a[i] * of_left + b[i] * of_right) * of_result;
    if constexpr (kTwice) c[i] = o[i];
  }
}
template <class T>
void add_scaled(void* out, void* copy, const void* left, const void* right, std::size_t elems, Factors by) {
  (copy ? add_scaled_to<T, true> : add_scaled_to<T, false>)(out, copy, left, right, elems, by);
}

template <class Half, class Reduction>
void combine_half(void* out, const void* left, const void* right, std::size_t elems) {
  std::array<float, kBlockElems> a, b;
  for (std::size_t i = 0; i < elems; i += kBlockElems) {
    const std::size_t count = std::min(kBlockElems, elems - i);
    widen(static_cast<const Half*>(left) + i, a.data(), count);
    widen(static_cast<const Half*>(right) + i, b.data(), count);
    combine<float, Reduction>(a.data(), a.data(), b.data(), count);
    narrow(a.data(), static_cast<Half*>(out) + i, count);
  }
}

template <class Half, class Reduction>
void add_half(void* out, const void* left, const void* right, std::size_t elems) {
  std::array<float, kBlockElems> b;
  for (std::size_t i = 0; i < elems; i += kBlockElems) {
    const std::size_t count = std::min(kBlockElems, elems - i);
    widen(static_cast<const Half*>(right) + i, b.data(), count);
    combine<float, Reduction>(static_cast<float*>(out) + i, static_cast<const float*>(left) + i, b.data(), count);
  }
}

Arithmetic::Combine find_combine(DType dtype, Op op) {
  return with_type(dtype, [op]<class T>() {
    return with_reduction(op, []<class Reduction>() -> Arithmetic::Combine {
      if constexpr (kBitwise<Reduction> && !std::is_integral_v<T>)
        return nullptr;
      else if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)
        return combine_half<T, Reduction>;
      else
        return combine<T, Reduction>;
    });
  });
}

Arithmetic::CombineTwice find_combine_twice(DType dtype, Op op) {
  return with_type(dtype, [op]<class T>() {
    return with_reduction(op, []<class Reduction>() -> Arithmetic::CombineTwice {
      if constexpr ((kBitwise<Reduction> && !std::is_integral_v<T>) || std::is_same_v<T, f16> ||
                    std::is_same_v<T, bf16>)
        return nullptr;
      else
        return combine_twice<T, Reduction>;
    });
  });
}

Arithmetic::AddScaled find_add_scaled(DType dtype, Op op) {
  if (op != Op::sum && op != Op::average) return nullptr;
  return dtype == DType::f32 ? add_scaled<float> : dtype == DType::f64 ? add_scaled<double> : nullptr;
}

// Converts between elements and the type in which they are sent. A double is converted to a float first.
template <class T, class Half>
void narrow_as(void* out, const void* from, std::size_t elems) {
  const auto* elements = static_cast<const T*>(from);
  auto* halves = static_cast<Half*>(out);
  if constexpr (std::is_same_v<T, float>) {
    narrow(elements, halves, elems);
  } else {
    std::array<float, kBlockElems> block;
    for (std::size_t i = 0; i < elems; i += kBlockElems) {
      const std::size_t count = std::min(kBlockElems, elems - i);
      for (std::size_t k = 0; k < count; k++) block[k] = float(elements[i + k]);
      narrow(block.data(), halves + i, count);
    }
  }
}
template <class T, class Half>
void widen_as(void* out, const void* from, std::size_t elems) {
  const auto* halves = static_cast<const Half*>(from);
  auto* elements = static_cast<T*>(out);
  if constexpr (std::is_same_v<T, float>) {
    widen(halves, elements, elems);
  } else {
    std::array<float, kBlockElems> block;
    for (std::size_t i = 0; i < elems; i += kBlockElems) {
      const std::size_t count = std::min(kBlockElems, elems - i);
      widen(halves + i, block.data(), count);
      for (std::size_t k = 0; k < count; k++) elements[i + k] = T(block[k]);
    }
  }
}

template <class Half>
void set_fold(Arithmetic& arithmetic, Op op) {
  arithmetic.to_f32 = widen_as<float, Half>;
  arithmetic.from_f32 = narrow_as<float, Half>;
  arithmetic.add_to_f32 = with_reduction(op, []<class Reduction>() -> Arithmetic::Combine {
    if constexpr (kBitwise<Reduction>)
      return nullptr;
    else
      return add_half<Half, Reduction>;
  });
}

void find_fold(Arithmetic& arithmetic, DType dtype, Op op) {
  if (dtype == DType::f16) set_fold<f16>(arithmetic, op);
  if (dtype == DType::bf16) set_fold<bf16>(arithmetic, op);
}

template <class T>
void set_conversions(Arithmetic& arithmetic, DType wire) {
  const bool brain = wire == DType::bf16;
  arithmetic.narrow = brain ? narrow_as<T, bf16> : narrow_as<T, f16>;
  arithmetic.widen = brain ? widen_as<T, bf16> : widen_as<T, f16>;
}

void find_conversions(Arithmetic& arithmetic, DType dtype, DType wire) {
  if (dtype == DType::f64)
    set_conversions<double>(arithmetic, wire);
  else
    set_conversions<float>(arithmetic, wire);
}

// Computes to[i] = compute(from[i]). 16-bit floats are converted to float for compute() and back, block by block.
template <class T, class Compute>
void each_elem(T* to, const T* from, std::size_t elems, Compute compute) {
  ANELLO_INDEPENDENT_LOOP
  for (std::size_t i = 0; i < elems; i++) to[i] = compute(from[i]);
}
template <class Half, class Compute>
void each_half(Half* to, const Half* from, std::size_t elems, Compute compute) {
  std::array<float, kBlockElems> block;
  for (std::size_t i = 0; i < elems; i += kBlockElems) {
    const std::size_t count = std::min(kBlockElems, elems - i);
    widen(from + i, block.data(), count);
    each_elem(block.data(), block.data(), count, compute);
    narrow(block.data(), to + i, count);
  }
}

template <class T>
void multiply(void* to, const void* from, std::size_t elems, double by) {
  auto* out = static_cast<T*>(to);
  const auto* in = static_cast<const T*>(from);
  if constexpr (std::is_floating_point_v<T>)
    each_elem(out, in, elems, [=](T value) { return value * T(by); });
  else
    each_half(out, in, elems, [=](float value) { return value * float(by); });
}

// Divides integers of at most 32 bits as doubles, because that division is vectorised. A double holds such an integer
// exactly, and no quotient is rounded up to the next whole number.
template <class T>
void divide_integers(T* out, const T* in, std::size_t elems, double by) {
  using Narrow = std::conditional_t<std::is_same_v<T, std::uint32_t>, std::int64_t, std::int32_t>;
  if constexpr (sizeof(T) < 8)
    each_elem(out, in, elems, [=](T value) { return T(Narrow(double(value) / by)); });
  else
    each_elem(out, in, elems, [divisor = T(by)](T value) { return T(value / divisor); });
}

template <class T>
void divide(void* to, const void* from, std::size_t elems, double by) {
  auto* out = static_cast<T*>(to);
  const auto* in = static_cast<const T*>(from);
  if constexpr (std::is_integral_v<T>)
    divide_integers(out, in, elems, by);
  else if (is_power_of_two(by))
    multiply<T>(to, from, elems, 1 / by);
  else if constexpr (std::is_floating_point_v<T>)
    each_elem(out, in, elems, [=](T value) { return value / T(by); });
  else
    each_half(out, in, elems, [=](float value) { return value / float(by); });
}

void find_scaling(Scaling& scaling, DType dtype) {
  with_type(dtype, [&]<class T>() {
    scaling.divide = divide<T>;
    if constexpr (!std::is_integral_v<T>) scaling.multiply = multiply<T>;
  });
}

void widen_f16(const f16* from, float* to, std::size_t elems) {
  widen(from, to, elems);
}
void widen_bf16(const bf16* from, float* to, std::size_t elems) {
  widen(from, to, elems);
}
void narrow_f16(const float* from, f16* to, std::size_t elems) {
  narrow(from, to, elems);
}
void narrow_bf16(const float* from, bf16* to, std::size_t elems) {
  narrow(from, to, elems);
}

}  // namespace anello::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace anello::run {

HWY_EXPORT(find_combine);
HWY_EXPORT(find_combine_twice);
HWY_EXPORT(find_add_scaled);
HWY_EXPORT(find_fold);
HWY_EXPORT(find_conversions);
HWY_EXPORT(find_scaling);
HWY_EXPORT(widen_f16);
HWY_EXPORT(widen_bf16);
HWY_EXPORT(narrow_f16);
HWY_EXPORT(narrow_bf16);

Arithmetic arithmetic(DType dtype, Op op) {
  const auto shift = std::uint32_t(std::countr_zero(size_bytes(dtype)));
  if (is_only_stored(dtype)) return {.shift = shift, .wire_shift = shift};
  ANELLO_CHECK(can_reduce(dtype, op));
  Arithmetic result{shift, HWY_DYNAMIC_DISPATCH(find_combine)(dtype, op), shift};
  result.combine_twice = HWY_DYNAMIC_DISPATCH(find_combine_twice)(dtype, op);
  result.add_scaled = HWY_DYNAMIC_DISPATCH(find_add_scaled)(dtype, op);
  HWY_DYNAMIC_DISPATCH(find_fold)(result, dtype, op);
  return result;
}

bool can_travel_as(DType dtype, DType wire) {
  const bool half = wire == DType::f16 || wire == DType::bf16;
  return dtype == wire || (half && (dtype == DType::f32 || dtype == DType::f64));
}

Arithmetic arithmetic(DType dtype, Op op, DType wire) {
  ANELLO_CHECK(can_travel_as(dtype, wire));
  Arithmetic result = arithmetic(dtype, op);
  if (dtype == wire) return result;
  result.wire_shift = std::uint32_t(std::countr_zero(size_bytes(wire)));
  HWY_DYNAMIC_DISPATCH(find_conversions)(result, dtype, wire);
  return result;
}

Scaling scaling(DType dtype, double divisor, double factor) {
  ANELLO_CHECK(is_float(dtype) || factor == 1);
  Scaling result{divisor, factor};
  if (!is_only_stored(dtype)) HWY_DYNAMIC_DISPATCH(find_scaling)(result, dtype);
  return result;
}

std::optional<double> Scaling::one_factor() const {
  const bool exact = is_power_of_two(divisor);  // divide() multiplies by the inverse of a power of two
  if (factor == 1 && exact) return 1 / divisor;
  return divisor == 1 ? std::optional(factor) : std::nullopt;
}

void scale(DType dtype, Bytes to, ConstBytes from, double factor) {
  ANELLO_CHECK(to.size() == from.size());
  scaling(dtype, 1, factor).multiply(to.data(), from.data(), to.size() / size_bytes(dtype), factor);
}

}  // namespace anello::run

namespace anello {

void convert(std::span<const float> from, std::span<f16> to) {
  using namespace run;  // HWY_DYNAMIC_DISPATCH looks for its tables there
  ANELLO_CHECK(from.size() == to.size());
  HWY_DYNAMIC_DISPATCH(narrow_f16)(from.data(), to.data(), from.size());
}
void convert(std::span<const float> from, std::span<bf16> to) {
  using namespace run;  // HWY_DYNAMIC_DISPATCH looks for its tables there
  ANELLO_CHECK(from.size() == to.size());
  HWY_DYNAMIC_DISPATCH(narrow_bf16)(from.data(), to.data(), from.size());
}
void convert(std::span<const f16> from, std::span<float> to) {
  using namespace run;  // HWY_DYNAMIC_DISPATCH looks for its tables there
  ANELLO_CHECK(from.size() == to.size());
  HWY_DYNAMIC_DISPATCH(widen_f16)(from.data(), to.data(), from.size());
}
void convert(std::span<const bf16> from, std::span<float> to) {
  using namespace run;  // HWY_DYNAMIC_DISPATCH looks for its tables there
  ANELLO_CHECK(from.size() == to.size());
  HWY_DYNAMIC_DISPATCH(widen_bf16)(from.data(), to.data(), from.size());
}

}  // namespace anello
#endif
