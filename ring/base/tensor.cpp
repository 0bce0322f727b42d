#include <anello/tensor.hpp>
#include <array>
#include <bit>

namespace anello {
namespace {
struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
  ElementKind kind;
};
constexpr DTypeRow kDTypes[] = {
    {"?", 1, ElementKind::stored},
#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, text, common_name, kind, ...) {text, bytes, ElementKind::kind},
#include <anello/element_types.def>
};
#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, ...) \
  static_assert(sizeof(type) == bytes && dtype_of<type>() == DType::name && std::size(kDTypes) > value);
#include <anello/element_types.def>
constexpr std::array<std::string_view, 9> kOps = {"?",       "sum",     "average", "min",    "max",
                                                  "product", "bit_and", "bit_or",  "bit_xor"};
const DTypeRow& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return kDTypes[index < std::size(kDTypes) ? index : 0];
}
}  // namespace

std::string_view name(DType dtype) {
  return row(dtype).name;
}
std::size_t size_bytes(DType dtype) {
  return row(dtype).bytes;
}
ElementKind kind(DType dtype) {
  return row(dtype).kind;
}
std::string_view name(Op op) {
  const auto index = static_cast<std::size_t>(op);
  return kOps[index < kOps.size() ? index : 0];
}
bool parse(std::string_view text, DType& dtype) {
  for (std::size_t i = 1; i < std::size(kDTypes); i++)
    if (kDTypes[i].name == text) return dtype = DType(i), true;
  return false;
}
bool parse(std::string_view text, Op& op) {
  for (std::size_t i = 1; i < kOps.size(); i++)
    if (kOps[i] == text) return op = Op(i), true;
  return false;
}

bool is_float(DType dtype) {
  return kind(dtype) == ElementKind::real;
}
bool can_reduce(DType dtype, Op op) {
  const bool bitwise = op >= Op::bit_and && op <= Op::bit_xor;
  switch (kind(dtype)) {
    case ElementKind::real:
      return !bitwise;
    case ElementKind::truth:
      return op != Op::average;
    case ElementKind::integer:
      return true;
    case ElementKind::stored:
      break;
  }
  return false;
}

// Uses integers, because not every compiler has a half-precision type. For values below 2^-14, adding 0.5 puts the bits
// of the denormal number into the last bits of the sum, and the addition itself rounds to nearest even.
f16::f16(float value) {
  const auto wide = std::bit_cast<std::uint32_t>(value);
  const auto sign = std::uint16_t(wide >> 16 & 0x8000);
  const std::uint32_t magnitude = wide & 0x7fffffff;
  std::uint32_t half = 0x7c00;  // infinity, also for values that round to it
  if (magnitude > 0x7f800000)
    half = 0x7e00 | (magnitude >> 13 & 0x3ff);
  else if (magnitude < 0x38800000)
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000;
  else if (magnitude < 0x477ff000)
    half = (magnitude - (112U << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  bits = std::uint16_t(sign | half);
}
f16::operator float() const {
  const std::uint32_t sign = (bits & 0x8000U) << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(float(mantissa) * 0x1p-24F));
  const std::uint32_t widened = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
}

// Takes the upper half of a float, rounded to nearest even; a NaN stays a (quiet) NaN.
bf16::bf16(float value) {
  const auto wide = std::bit_cast<std::uint32_t>(value);
  if (value != value)
    bits = static_cast<std::uint16_t>((wide >> 16) | 0x40);
  else
    bits = static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}
bf16::operator float() const {
  return std::bit_cast<float>(std::uint32_t(bits) << 16);
}

}  // namespace anello
