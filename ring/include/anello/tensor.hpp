// Element types, reductions, and views of tensors. Calls take tensors as views. A view owns nothing: the caller's
// memory is borrowed until the call returns, or, in an _async call, until the work is done. The functions here are
// pure: any thread, no blocking, no errors.
#pragma once
#include <anello/export.h>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>

ANELLO_API_BEGIN
namespace anello {

// f16, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean, f8_e4m3, f8_e5m2; see element_types.def. A
// boolean is a byte that is 0 or 1. The 8-bit floats of the Open Compute Project can be moved, but not reduced.
enum class DType : std::uint8_t {
#define ANELLO_ELEMENT_TYPE(name, value, ...) name = value,
#include <anello/element_types.def>
};
// stored: elements that are only moved; nothing is computed with them.
enum class ElementKind : std::uint8_t { real, integer, truth, stored };

// Sums and products of integers wrap around. Average divides the sum once, at the end; integers are truncated toward
// zero. Min and max of a NaN are NaN. For booleans, sum and max mean "any is true", product and min mean "all are
// true", and there is no average. The bitwise reductions are for integers and booleans. There are no user-defined
// reductions.
//
// f16 and bf16 are added in f32. A sum is rounded to 16 bits when it is stored or sent. The algorithms one_shot and
// two_shot round once; all others round after each addition, so the number of roundings is at most the number of ranks
// minus one. A sum beyond 65504 is infinite in f16. An average in f16 is infinite only if the mean is beyond 65504:
// elements are first divided by the smallest power of two that is at least the number of ranks, and the rest of the
// division follows at the end. This changes no bits, except that elements below 6e-5 times that power lose some bits.
enum class Op : std::uint8_t { sum = 1, average, min, max, product, bit_and, bit_or, bit_xor };

std::string_view name(DType dtype);   // for example "f32"; "?" if the value is not a DType
std::string_view name(Op op);         // for example "sum"; "?" if the value is not an Op
std::size_t size_bytes(DType dtype);  // the size of one element; 1 if the value is not a DType
ElementKind kind(DType dtype);        // stored if the value is not a DType
// Sets the second argument to the value with this name. Returns false, and sets nothing, if there is no such name.
[[nodiscard]] bool parse(std::string_view name, DType& dtype);
[[nodiscard]] bool parse(std::string_view name, Op& op);
bool is_float(DType dtype);           // true if the kind is real: f16, bf16, f32 or f64
bool can_reduce(DType dtype, Op op);  // true if elements of this type can be reduced in this way

// IEEE 754 half precision and bfloat16. They only store a value: convert to float to compute. Converting from float
// rounds to nearest even.
struct f16 {
  std::uint16_t bits = 0;
  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
  friend bool operator==(f16, f16) = default;
};
struct bf16 {
  std::uint16_t bits = 0;
  bf16() = default;
  explicit bf16(float value);
  explicit operator float() const;
  friend bool operator==(bf16, bf16) = default;
};

// 8-bit floats with 4 and with 5 bits of exponent; e4m3 has no infinities.
struct f8_e4m3 {
  std::uint8_t bits = 0;
  friend bool operator==(f8_e4m3, f8_e4m3) = default;
};
struct f8_e5m2 {
  std::uint8_t bits = 0;
  friend bool operator==(f8_e5m2, f8_e5m2) = default;
};

// Integer types of C++ that have no row in the table. Each is stored as a type that has a row. char is i8 or u8,
// depending on the compiler.
template <class T, class... Types>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);
template <class T>
concept OtherInteger = kIsOneOf<T, char, long, unsigned long, long long, unsigned long long>;

// The types that an element may have; other types are refused.
template <class T>
concept Element = OtherInteger<T>
#define ANELLO_ELEMENT_TYPE(name, value, type, ...) || std::is_same_v<T, type>
#include <anello/element_types.def>
    ;

template <Element T>
constexpr DType dtype_of() {
#define ANELLO_ELEMENT_TYPE(name, value, type, ...) \
  if constexpr (std::is_same_v<T, type>)            \
    return DType::name;                             \
  else
#include <anello/element_types.def>
  return DType(int(DType::i8) + 2 * std::countr_zero(sizeof(T)) + std::is_unsigned_v<T>);
}

template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::remove_cv_t<std::ranges::range_value_t<R>>>;
// A container that is destroyed at the end of the statement. Excludes views such as std::span.
template <class R>
concept TemporaryRange = ElementRange<R> && !std::ranges::borrowed_range<R>;

struct Tensor;
// A range that no tensor can view. Excludes lists of Tensor.
template <class R>
concept OtherRange =
    std::ranges::range<R> && !ElementRange<R> && !std::is_same_v<std::ranges::range_value_t<R>, Tensor>;

// A view of `count` elements that may be written. It is made from a contiguous range (vector, array, span), from a
// pointer and a count, or from a pointer, a count and a type. Temporary containers are refused, because an _async call
// would still use their memory after it is freed.
struct Tensor {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;

  Tensor(void* memory, std::size_t elems, DType type) : data(memory), count(elems), dtype(type) {}
  template <Element T>
  Tensor(T* memory, std::size_t elems) : Tensor(memory, elems, dtype_of<T>()) {}
  template <ElementRange R>
  requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>> && !TemporaryRange<R>)
      Tensor(R&& range)
      : Tensor(std::ranges::data(range), std::ranges::size(range)) {}
  template <TemporaryRange R>
  Tensor(R&& temporary) = delete;  // give the container a name: it must live until the operation is done
  template <OtherRange R>
  Tensor(R&& range) = delete;  // must be contiguous (not std::list, not std::vector<bool>), of a type in anello::DType
  template <Element T>
  Tensor(const T& number) = delete;  // for one number: Tensor(&number, 1), or sum(), min(), max() and average()
  std::size_t bytes() const { return count * size_bytes(dtype); }
};

// A view of `count` elements that are only read.
struct ConstTensor {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;

  ConstTensor(const void* memory, std::size_t elems, DType type) : data(memory), count(elems), dtype(type) {}
  ConstTensor(Tensor t) : data(t.data), count(t.count), dtype(t.dtype) {}
  template <Element T>
  ConstTensor(const T* memory, std::size_t elems) : ConstTensor(memory, elems, dtype_of<T>()) {}
  template <ElementRange R>
  requires(!TemporaryRange<R>) ConstTensor(R&& range)
      : ConstTensor(std::ranges::data(range), std::ranges::size(range)) {}
  template <TemporaryRange R>
  ConstTensor(R&& temporary) = delete;  // give the container a name: it must live until the operation is done
  template <OtherRange R>
  ConstTensor(R&& range) = delete;  // must be contiguous, of a type in anello::DType
  template <Element T>
  ConstTensor(const T& number) = delete;  // for one number: ConstTensor(&number, 1)
  std::size_t bytes() const { return count * size_bytes(dtype); }
};

// Converts element by element; to 16 bits it rounds to nearest even. Spans of different lengths abort the process.
void convert(std::span<const float> from, std::span<f16> to);
void convert(std::span<const float> from, std::span<bf16> to);
void convert(std::span<const f16> from, std::span<float> to);
void convert(std::span<const bf16> from, std::span<float> to);

}  // namespace anello
ANELLO_API_END
