// Element types, reductions, and the views through which tensors are handed over. Views own nothing: the caller's
// memory is borrowed until the call returns (or, for asynchronous work, until wait() does).
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

// Values are part of the wire protocol and of the C API: append only.
// A boolean is a byte that is 0 or 1.
enum class DType : std::uint8_t { f16 = 1, bf16, f32, f64, i8, u8, i16, u16, i32, u32, i64, u64, boolean };

// Sums and products of integers wrap. Average divides once, at the end (integers truncate toward zero). Min and max
// propagate NaN. f16 and bf16 are reduced in f32. Of booleans, sum and max mean "any", product and min "all"; they have
// no average. The bitwise ones are for integers and booleans.
enum class Op : std::uint8_t { sum = 1, average, min, max, product, bit_and, bit_or, bit_xor };

std::string_view name(DType dtype);         // "f32"
std::string_view name(Op op);               // "sum"
std::size_t size_bytes(DType dtype);        // of one element
bool parse(std::string_view text, DType&);  // false if there is no such type
bool parse(std::string_view text, Op&);
bool is_float(DType dtype);
bool can_reduce(DType dtype, Op op);

// IEEE 754 half precision and bfloat16, as storage: convert to float to compute. Rounds to nearest even.
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

template <class T>
inline constexpr bool kNoDType = false;
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, f16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, bf16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_integral_v<T>) {
    constexpr int kLogSize = std::countr_zero(sizeof(T));
    return DType(int(DType::i8) + 2 * kLogSize + std::is_unsigned_v<T>);
  } else {
    static_assert(kNoDType<T>, "not an element type: see anello::DType");
  }
}
template <class T>
concept Element = std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || std::is_integral_v<T>;

template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::remove_cv_t<std::ranges::range_value_t<R>>>;

// A mutable view of `count` elements. Made from any contiguous range (vector, array, span) or from pointer, count,
// type.
struct Tensor {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;

  Tensor(void* memory, std::size_t elems, DType type) : data(memory), count(elems), dtype(type) {}
  template <ElementRange R>
  requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>) Tensor(R&& range)
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(dtype_of<std::ranges::range_value_t<R>>()) {}
  std::size_t bytes() const { return count * size_bytes(dtype); }
};

// The same, read only.
struct ConstTensor {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;

  ConstTensor(const void* memory, std::size_t elems, DType type) : data(memory), count(elems), dtype(type) {}
  ConstTensor(Tensor t) : data(t.data), count(t.count), dtype(t.dtype) {}
  template <ElementRange R>
  ConstTensor(R&& range)
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(dtype_of<std::remove_cv_t<std::ranges::range_value_t<R>>>()) {}
  std::size_t bytes() const { return count * size_bytes(dtype); }
};

// Element-wise conversion, for gradients that travel in half precision. Both spans have the same length.
void convert(std::span<const float> from, std::span<f16> to);
void convert(std::span<const float> from, std::span<bf16> to);
void convert(std::span<const f16> from, std::span<float> to);
void convert(std::span<const bf16> from, std::span<float> to);

}  // namespace anello
ANELLO_API_END
