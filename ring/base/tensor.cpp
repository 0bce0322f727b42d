#include <anello/tensor.hpp>
#include <array>
#include <bit>

namespace anello {
namespace {
struct DTypeRow {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DTypeRow, 13> kDTypes = {{{"?", 1},
                                               {"f16", 2},
                                               {"bf16", 2},
                                               {"f32", 4},
                                               {"f64", 8},
                                               {"i8", 1},
                                               {"u8", 1},
                                               {"i16", 2},
                                               {"u16", 2},
                                               {"i32", 4},
                                               {"u32", 4},
                                               {"i64", 8},
                                               {"u64", 8}}};
constexpr std::array<std::string_view, 6> kOps = {"?", "sum", "average", "min", "max", "product"};
const DTypeRow& row(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  return kDTypes[index < kDTypes.size() ? index : 0];
}
}  // namespace

std::string_view name(DType dtype) {
  return row(dtype).name;
}
std::size_t size_bytes(DType dtype) {
  return row(dtype).bytes;
}
std::string_view name(Op op) {
  const auto index = static_cast<std::size_t>(op);
  return kOps[index < kOps.size() ? index : 0];
}
bool parse(std::string_view text, DType& dtype) {
  for (std::size_t i = 1; i < kDTypes.size(); i++)
    if (kDTypes[i].name == text) return dtype = DType(i), true;
  return false;
}
bool parse(std::string_view text, Op& op) {
  for (std::size_t i = 1; i < kOps.size(); i++)
    if (kOps[i] == text) return op = Op(i), true;
  return false;
}

f16::f16(float value) : bits(std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) {}
f16::operator float() const {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

// The upper half of a float, rounded to nearest even; a NaN stays a (quiet) NaN.
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
