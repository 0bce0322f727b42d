// ANELLO_INTEGRITY: what is not the same on all ranks is noticed, and it is said whose result it was.
#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "ring/run/checksum.hpp"
#include "tests/support/proxied.hpp"
#include "tests/support/started.hpp"

namespace anello {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr std::uint64_t kElems = 16384, kWithin = 1 << 15;  // bytes: in the data, and where no other connection comes

Settings with_integrity(int on) {
  Settings settings = Settings::from_environment();
  settings.integrity = on;
  return settings;
}

// One bit of the first broadcast is another for some.
std::vector<Told> told_of_a_damaged_broadcast(int on, std::vector<std::vector<float>>& values) {
  Proxied world(kRanks);
  world.between(0, 1, {.corrupt_at = kWithin});
  return world.told(
      [&](World& w) {
        w.barrier();
        std::vector<float>& mine = values[std::size_t(w.rank())];
        mine.assign(kElems, w.rank() == 0 ? 1.5F : 0.F);
        w.broadcast(mine, 0);
        w.barrier();
      },
      with_integrity(on));
}

TEST(Integrity, a_damaged_result_is_found_out_by_the_next_operation) {
  std::vector<std::vector<float>> values(kRanks);
  const std::vector<Told> all = told_of_a_damaged_broadcast(1, values);
  EXPECT_NE(values[0], values[1]);
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), Code::diverged) << told.error->what();
    EXPECT_EQ(told.error->message(), all[0].error->message());
    EXPECT_THAT(told.error->message(),
                AllOf(HasSubstr("the results of broadcast #1 (16384 f32 from root 0) differ: rank 0 has checksum "),
                      HasSubstr(", rank 1 has checksum ")));
  }
}

TEST(Integrity, is_not_there_unasked) {
  std::vector<std::vector<float>> values(kRanks);
  for (const Told& told : told_of_a_damaged_broadcast(0, values)) EXPECT_FALSE(told.error) << told.error->what();
  EXPECT_NE(values[0], values[1]) << "the proxy did not do its work";
}

// Whatever the operation, its type and its group: no false alarm.
class InTransports : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Both, InTransports, ::testing::Values("tcp", "shm"),
                         [](const auto& transport) { return transport.param; });

TEST_P(InTransports, sound_results_are_the_same) {
  Settings settings = with_integrity(1);
  settings.transport = GetParam();
  const auto all = told_on_all_ranks(
      kRanks,
      [](World& world) {
        Random random(7);
        Group half = world.split(world.rank() % 2);
        for (int k = 0; k < 200; k++) {
          const std::string wrong = carry_out(world, any_exercise(world.size(), random));
          if (!wrong.empty()) throw Error(Code::invalid_argument, wrong);
          if (k % 10 == 0) half.barrier();
        }
      },
      settings);
  for (const Told& told : all) EXPECT_FALSE(told.error) << told.error->what();
}

std::uint32_t checksum_of(std::vector<float> values) {
  return checksum(DType::f32, Buffer(reinterpret_cast<std::byte*>(values.data()), values.size()), values.size());
}

TEST(Checksum, tells_any_bit_from_another) {
  const std::vector<float> values(5000, 1.F);
  for (const std::size_t at : {0, 1, 1023, 1024, 4999})
    for (int bit = 0; bit < 23; bit++) {
      std::vector<float> other = values;
      std::uint32_t bits;
      std::memcpy(&bits, &other[at], sizeof bits);
      bits ^= 1U << bit;
      std::memcpy(&other[at], &bits, sizeof bits);
      EXPECT_NE(checksum_of(other), checksum_of(values)) << at << " " << bit;
    }
  EXPECT_NE(checksum_of({1.F, 2.F}), checksum_of({2.F, 1.F}));
  EXPECT_NE(checksum_of({0.F}), checksum_of({0.F, 0.F}));
}

TEST(Checksum, is_the_same_however_a_buffer_is_made_up) {
  std::vector<float> values(3000);
  for (std::size_t i = 0; i < values.size(); i++) values[i] = float(i);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  const std::vector<Buffer::Piece> pieces{{7, bytes, 7}, {2000, bytes + 28, 1993}, {3000, bytes + 8000, 1000}};
  EXPECT_EQ(checksum(DType::f32, Buffer(pieces), 3000), checksum_of(values));
}

TEST(Checksum, one_nan_is_like_another) {
  for (const auto& [dtype, one, other] :
       {std::tuple(DType::f16, 0x7e00U, 0xfd01U), std::tuple(DType::bf16, 0x7fc0U, 0xff81U),
        std::tuple(DType::f32, 0x7fc00000U, 0xff800001U)}) {
    const auto of = [dtype](std::uint32_t bits) {
      std::array<std::uint32_t, 2> values{bits, 0};
      return checksum(dtype, Buffer(reinterpret_cast<std::byte*>(values.data()), 1), 1);
    };
    EXPECT_EQ(of(one), of(other)) << name(dtype);
    EXPECT_NE(of(one), of(one & ~0x3ffU &
                          ~(dtype == DType::f32    ? 0x7fffffU
                            : dtype == DType::bf16 ? 0x7fU
                                                   : 0x3ffU)))
        << name(dtype) << ": infinity is a number";
  }
}

}  // namespace
}  // namespace anello
