// ANELLO_INTEGRITY: results that differ between ranks are noticed, and the error says whose result differs.
#include <gmock/gmock.h>

#include <bit>
#include <cstring>

#include "ring/run/checksum.hpp"
#include "tests/support/proxied.hpp"
#include "tests/support/started.hpp"

namespace anello::group {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 4;
// kWithin: the position of a byte within the data; no other connection carries that many bytes.
constexpr std::uint64_t kElems = 16384, kWithin = 1 << 15;

Settings with_integrity(int on) {
  Settings settings = Settings::from_environment();
  settings.integrity = on;
  return settings;
}

// One bit of the first broadcast is flipped on its way to some ranks.
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

TEST(Integrity, ADamagedResultIsFoundOutByTheNextOperation) {
  std::vector<std::vector<float>> values(kRanks);
  const std::vector<Told> all = told_of_a_damaged_broadcast(1, values);
  EXPECT_NE(values[0], values[1]);
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::diverged) << told.error->what();
    EXPECT_EQ(told.error->message(), all[0].error->message());
    EXPECT_THAT(told.error->message(),
                AllOf(HasSubstr("the results of broadcast #1 (16384 f32 from root 0) differ: rank 0 has checksum "),
                      HasSubstr(", rank 1 has checksum ")));
  }
}

TEST(Integrity, IsNotThereUnasked) {
  std::vector<std::vector<float>> values(kRanks);
  for (const Told& told : told_of_a_damaged_broadcast(0, values)) EXPECT_FALSE(told.error) << told.error->what();
  EXPECT_NE(values[0], values[1]) << "the proxy did not do its work";
}

// If results are not compared, a damaged checksum must not be reported as a difference.
TEST(Integrity, ADamagedChecksumIsNoDivergenceIfThereIsNone) {
  constexpr std::uint64_t kHandshake = 50, kSignature = 48, kElements = 100, kResults = 36;  // bytes; the last: where
  Proxied world(2);
  const auto all = world.told(
      [&](World& w) {
        std::vector<std::uint8_t> values(kElements);
        w.broadcast(values, 0);
        if (w.rank() == 0)
          world.between(0, 1, {.corrupt_at = kHandshake + kSignature + kElements + kResults, .answers_only = true});
        w.broadcast(values, 0);
        w.barrier();
      },
      with_integrity(0));
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank;
    EXPECT_EQ(told.error->code(), ErrorCode::protocol) << told.error->what();
    EXPECT_THAT(told.error->message(), HasSubstr("the checksum of earlier results that rank 0 sent is damaged"));
  }
}

using Place = std::tuple<std::string, int>;
class Sound : public ::testing::TestWithParam<Place> {
 protected:
  void expect_no_alarm(const Program& program) const {
    Settings settings = with_integrity(1);
    settings.transport = std::get<0>(GetParam());
    for (const Told& told : told_on_all_ranks(std::get<1>(GetParam()), program, settings))
      EXPECT_FALSE(told.error) << told.error->what();
  }
};
INSTANTIATE_TEST_SUITE_P(InWorlds, Sound,
                         ::testing::Combine(::testing::Values("tcp", "shm"), ::testing::Values(1, 2, 3, 5)));

TEST_P(Sound, OperationsOfEveryKindAlsoInGroups) {
  expect_no_alarm([](World& world) {
    Random random(7);
    Group half = world.split(world.rank() % 2);
    for (int k = 0; k < 200 / kSlowdown; k++) {
      carry_out_right(world, any_exercise(world.size(), random));
      carry_out_right(half, {.kind = Kind::allreduce, .count = std::uint64_t(10 * k)});
    }
  });
}

TEST_P(Sound, AsynchronousOperations) {
  expect_no_alarm([](World& world) {
    Random random(8);
    for (int k = 0; k < 20; k++) {
      std::vector<Started> all;
      for (int i = 0; i < 5; i++) all.emplace_back(world, any_exercise(world.size(), random));
      for (Started& each : all) each.work.wait();
    }
  });
}

// Sums that must be rounded, in every order and type.
TEST_P(Sound, SumsThatAreRounded) {
  expect_no_alarm([](World& world) {
    std::vector<float> values(1000);
    std::vector<double> more(300);
    for (const Algorithm algorithm : all_algorithms())
      for (const std::optional<DType> wire : {std::optional<DType>(), {DType::f16}, {DType::bf16}})
        for (const Op op : {Op::sum, Op::average, Op::max}) {
          for (std::size_t i = 0; i < values.size(); i++) values[i] = 1.F / float(i + 3 + std::size_t(world.rank()));
          for (std::size_t i = 0; i < more.size(); i++) more[i] = 1. / double(i + 7 + std::size_t(world.rank()));
          const ReduceOptions options{.algorithm = name(algorithm), .wire = wire, .postscale = 1. / 3};
          world.allreduce(values, op, options);
          world.allreduce(more, op, options);
          const std::vector<Tensor> list{std::span(values).first(10), std::span(values).subspan(20, 500)};
          world.allreduce(list, op, options);
          world.broadcast(list, 0);
        }
    world.barrier();
  });
}

TEST_P(Sound, SumsThatAreNoNumbers) {
  expect_no_alarm([](World& world) {
    for (const Algorithm algorithm : all_algorithms()) {
      std::vector<std::uint32_t> bits(2000);
      for (std::size_t i = 0; i < bits.size(); i++)
        bits[i] = (i % 2 == 0 ? 0x7fc00000U : 0xffc00000U) + std::uint32_t(i) + 5000U * std::uint32_t(world.rank());
      world.allreduce(Tensor(bits.data(), bits.size(), DType::f32), Op::sum, {.algorithm = name(algorithm)});
    }
    world.barrier();
  });
}

std::uint32_t checksum_of(std::vector<float> values, run::Nans nans = run::Nans::alike) {
  return checksum(DType::f32, run::Buffer(reinterpret_cast<std::byte*>(values.data()), values.size()), values.size(),
                  nans);
}
std::vector<float> with_bit_flipped(std::vector<float> values, std::size_t at, int bit) {
  values[at] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values[at]) ^ 1U << bit);
  return values;
}

TEST(Checksum, TellsAnyBitFromAnother) {
  const std::vector<float> values(5000, 1.F);
  for (const std::size_t at : {0, 1, 1023, 1024, 4999})
    for (int bit = 0; bit < 32; bit++)
      EXPECT_NE(checksum_of(with_bit_flipped(values, at, bit)), checksum_of(values)) << at << " " << bit;
  EXPECT_NE(checksum_of({1.F, 2.F}), checksum_of({2.F, 1.F}));
  EXPECT_NE(checksum_of({0.F}), checksum_of({0.F, 0.F}));
}

TEST(Checksum, IsTheSameHoweverABufferIsMadeUp) {
  std::vector<float> values(3000);
  for (std::size_t i = 0; i < values.size(); i++) values[i] = float(i);
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  const std::vector<run::Buffer::Piece> pieces{{7, bytes, 7}, {2000, bytes + 28, 1993}, {3000, bytes + 8000, 1000}};
  EXPECT_EQ(checksum(DType::f32, run::Buffer(pieces), 3000, run::Nans::alike), checksum_of(values));
}

TEST(Checksum, OneNanIsLikeAnotherIfAsked) {
  struct Case {
    DType dtype;
    std::uint64_t one, other, infinity;
  };
  for (const Case& each : {Case{DType::f16, 0x7e00, 0xfd01, 0x7c00}, Case{DType::bf16, 0x7fc0, 0xff81, 0x7f80},
                           Case{DType::f32, 0x7fc00000, 0xff800001, 0x7f800000},
                           Case{DType::f64, 0x7ff8000000000000, 0xfff0000000000001, 0x7ff0000000000000}}) {
    const std::size_t bytes = size_bytes(each.dtype), elems = 3000;
    const auto of = [&](std::uint64_t bits, run::Nans nans) {
      std::vector<std::byte> values(elems * bytes);
      for (const std::size_t at : {std::size_t(0), elems - 1}) std::memcpy(values.data() + at * bytes, &bits, bytes);
      return checksum(each.dtype, run::Buffer(values.data(), elems), elems, nans);
    };
    EXPECT_EQ(of(each.one, run::Nans::alike), of(each.other, run::Nans::alike)) << name(each.dtype);
    EXPECT_NE(of(each.one, run::Nans::as_they_are), of(each.other, run::Nans::as_they_are)) << name(each.dtype);
    EXPECT_NE(of(each.one, run::Nans::alike), of(each.infinity, run::Nans::alike)) << name(each.dtype);
  }
}

}  // namespace
}  // namespace anello::group
