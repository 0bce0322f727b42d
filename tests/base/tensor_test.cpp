// The types from which a tensor can be made, and expressions that must not compile.
#include <gtest/gtest.h>
#include <anello/group.hpp>

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace anello {
namespace {

template <class... From>
inline constexpr bool makes_tensor = std::is_constructible_v<Tensor, From...>;
template <class... From>
inline constexpr bool makes_input = std::is_constructible_v<ConstTensor, From...>;

// These are all element types; no other type may be accepted by accident.
static_assert(Element<f16> && Element<bf16> && Element<float> && Element<double> && Element<bool> && Element<char>);
static_assert(Element<std::int8_t> && Element<std::int16_t> && Element<std::int32_t> && Element<std::int64_t>);
static_assert(Element<std::uint8_t> && Element<std::uint16_t> && Element<std::uint32_t> && Element<std::uint64_t>);
static_assert(Element<long> && Element<long long> && Element<unsigned long> && Element<unsigned long long>);
static_assert(!Element<wchar_t> && !Element<char16_t> && !Element<long double> && !Element<int*> &&
              !Element<const int>);
__extension__ using Wide = __int128;
static_assert(!Element<Wide> && !makes_tensor<std::vector<Wide>&> && !makes_input<std::vector<Wide>&>);

// A tensor may be made from a view, and from a container that lives on. A temporary container is refused, because an
// operation would use its memory after its end.
static_assert(makes_tensor<std::vector<float>&> && makes_tensor<std::array<int, 3>&> && makes_tensor<int (&)[3]>);
static_assert(makes_tensor<std::span<float>> && makes_tensor<std::string&> && !makes_tensor<std::string_view>);
static_assert(!makes_tensor<std::vector<float>> && !makes_tensor<std::array<int, 3>> && !makes_tensor<std::string>);
static_assert(!makes_tensor<const std::vector<float>&> && makes_input<const std::vector<float>&>);
static_assert(makes_input<std::span<const float>> && makes_input<std::string_view> && makes_input<Tensor>);
static_assert(!makes_input<std::vector<float>> && !makes_input<const std::vector<float>>);
static_assert(!makes_tensor<std::vector<bool>&> && !makes_tensor<std::list<int>&> && !makes_tensor<double&>);

template <class T>
concept CanBeStarted = requires(Group group, T&& tensor) {
  group.allreduce_async(std::forward<T>(tensor));
};
static_assert(CanBeStarted<std::vector<float>&> && !CanBeStarted<std::vector<float>>);

// Tensors made from a pointer and a number of elements have the pointer's type.
static_assert(makes_tensor<double*, std::size_t> && !makes_tensor<const double*, std::size_t>);
static_assert(makes_input<const double*, std::size_t> && !makes_tensor<void*, std::size_t>);

TEST(Tensor, TakesItsTypeFromThePointer) {
  std::array<std::uint16_t, 3> values{};
  const Tensor tensor(values.data(), 2);
  EXPECT_EQ(tensor.data, values.data());
  EXPECT_EQ(tensor.count, 2u);
  EXPECT_EQ(tensor.dtype, DType::u16);
  const bf16* const none = nullptr;
  EXPECT_EQ(ConstTensor(none, 0).dtype, DType::bf16);
}

TEST(Tensor, HasTheTypeOfEachInteger) {
  EXPECT_EQ(dtype_of<signed char>(), DType::i8);
  EXPECT_EQ(dtype_of<unsigned short>(), DType::u16);
  EXPECT_EQ(dtype_of<int>(), DType::i32);
  EXPECT_EQ(dtype_of<unsigned long>(), DType::u64);
  EXPECT_EQ(dtype_of<long long>(), DType::i64);
  EXPECT_EQ(dtype_of<bool>(), DType::boolean);
}

}  // namespace
}  // namespace anello
