// Networks that are slow, fall silent, or damage the data: all ranks get right results, or all ranks get one and the
// same typed error in time.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>

#include "ring/world/bootstrap.hpp"
#include "tests/support/proxied.hpp"
#include "tests/support/random.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A position far into an operation's data. Only a data connection carries this many bytes.
constexpr std::uint64_t kMuch = 1 << 20;
const Exercise kLarge{.kind = Kind::allreduce, .op = Op::sum, .dtype = DType::f32, .count = kMuch};
constexpr milliseconds kWork{1000};  // the time of work before the fault, and after it
constexpr milliseconds kSilenceLimit{kSlowdown > 1 ? 3000 : 1000};
// Threads that wait longer than this for a core may make a healthy rank look silent: an answered ping needs six turns
// of the ranks and some of the proxies (could_be_silent() in tests/support/starvation.hpp).
constexpr milliseconds kHealthyWait = kSilenceLimit / 10;

Settings impatient() {
  Settings settings = Settings::from_environment();
  settings.silence_limit = kSilenceLimit;
  return settings;
}

void carry_out_right(World& world, int times, const Exercise& exercise) {
  for (int k = 0; k < times; k++) carry_out_right(world, exercise);
}

void expect_right(const std::vector<Told>& all) {
  for (const Told& told : all) EXPECT_FALSE(told.error) << "rank " << told.rank << ": " << told.error->what();
}

// Expects that all ranks receive the same error, with this code, within this time.
void expect_same_error(const std::vector<Told>& all, ErrorCode code, milliseconds within) {
  const auto limit = within * kSlowdown + all[0].lateness;
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " received no error";
    EXPECT_EQ(told.error->code(), code) << "rank " << told.rank << ": " << told.error->what();
    EXPECT_EQ(told.error->message(), all[0].error->message()) << "rank " << told.rank;
    EXPECT_LT(told.after, limit) << "rank " << told.rank << ": " << told.error->what();
  }
}

TEST(Network, ThatIsFarAwayChangesNothing) {
  Proxied world(4);
  world.everywhere({.delay = milliseconds(10)});
  expect_right(world.told([](World& w) { carry_out_right(w, 3, {.kind = Kind::allreduce, .count = 1000}); }));
}

TEST(Network, ThatCarriesLittleIsNoFailure) {
  undisturbed(kHealthyWait, [] {
    Proxied world(4);
    world.everywhere({.bytes_a_second = 4 << 20});
    expect_right(world.told([](World& w) { carry_out_right(w, 1, kLarge); }, impatient()));
  });
}

TEST(Network, ThatComesBackInTimeIsNoFailure) {
  undisturbed(kHealthyWait, [] {
    Proxied world(4);
    const auto told = world.told(
        [&](World& w) {
          carry_out_right(w, 1, kLarge);
          if (w.rank() == 1) {
            world.everywhere({.cut_off = true});
            std::this_thread::sleep_for(kSilenceLimit / 5);
            world.everywhere({});
          }
          carry_out_right(w, 1, kLarge);
        },
        impatient());
    expect_right(told);
  });
}

TEST(Network, ThatIsCutBetweenTwoRanksEndsTheWorldInTime) {
  Proxied world(4);
  const auto told = world.told(
      [&](World& w) {
        carry_out_right(w, 1, kLarge);
        w.barrier();
        if (w.rank() == 0) world.between(2, 3, {.cut_off = true});
        carry_out_right(w, 1000000, kLarge);
      },
      impatient());
  expect_same_error(told, ErrorCode::rank_silent, kSilenceLimit + seconds(1) + kWork);
  EXPECT_THAT(told[0].error->message(), ::testing::AnyOf(HasSubstr("rank 2"), HasSubstr("rank 3")));
}

// Ranks 0 and 3 of 6 send each other no heartbeats.
TEST(Network, ThatIsCutBetweenTwoRanksWithoutHeartbeatsEndsTheWorld) {
  Proxied world(6);
  Settings settings = impatient();
  settings.operation_limit = seconds(20);  // so that the test ends
  const auto told = world.told(
      [&](World& w) {
        std::vector<int> values(6), received(6);
        w.alltoall(values, received);
        w.barrier();
        if (w.rank() == 0) world.between(0, 3, {.cut_off = true});
        w.barrier();
        w.alltoall(values, received);
        w.barrier();
      },
      settings);
  for (const Told& each : told) {
    ASSERT_TRUE(each.error) << "rank " << each.rank << " received no error";
    EXPECT_EQ(each.error->code(), ErrorCode::rank_silent) << each.error->what();
    EXPECT_THAT(each.error->rank(), ::testing::AnyOf(0, 3)) << each.error->what();
  }
}

// Ranks 0 and 3 of 6 send each other no heartbeats, and have no data connection when they begin to wait.
TEST(Network, ThatIsCutBetweenTwoRanksBeforeTheyConnectEndsTheWorld) {
  Proxied world(6);
  Settings settings = impatient();
  settings.operation_limit = seconds(20);  // so that the test ends
  const auto told = world.told(
      [&](World& w) {
        w.barrier();
        if (w.rank() == 0) world.between(0, 3, {.cut_off = true});
        w.barrier();
        if (w.rank() % 3 == 0) w.group({0, 3}).barrier();
        w.barrier();
      },
      settings);
  for (const Told& each : told) {
    ASSERT_TRUE(each.error) << "rank " << each.rank << " was told nothing";
    EXPECT_EQ(each.error->code(), ErrorCode::rank_silent) << each.error->what();
    EXPECT_THAT(each.error->rank(), ::testing::AnyOf(0, 3)) << each.error->what();
  }
}

// All ranks wait for rank 3, and ping it.
TEST(Network, ThatCarriesThePingsOfRanksThatWaitForLongIsNoFailure) {
  undisturbed(kHealthyWait, [] {
    Proxied world(6);
    expect_right(world.told(
        [](World& w) {
          std::vector<int> values(6), received(6);
          w.alltoall(values, received);
          if (w.rank() == 3) std::this_thread::sleep_for(2 * kSilenceLimit);
          w.alltoall(values, received);
        },
        impatient()));
  });
}

// No rank of one side can see the decision of the other side.
TEST(Network, ThatFallsApartEndsTheWorldOnBothSidesInTime) {
  Proxied world(4);
  const auto told = world.told(
      [&](World& w) {
        w.barrier();
        if (w.rank() == 0)
          for (const int a : {0, 1})
            for (const int b : {2, 3}) world.between(a, b, {.cut_off = true});
        carry_out_right(w, 1000000, kLarge);
      },
      impatient());
  for (const Told& each : told) {
    ASSERT_TRUE(each.error) << "rank " << each.rank << " received no error";
    EXPECT_EQ(each.error->code(), ErrorCode::rank_silent) << each.error->what();
    EXPECT_GE(each.error->rank(), 0) << each.error->what();
    EXPECT_EQ(each.error->rank() < 2, each.rank >= 2) << "rank " << each.rank << ": " << each.error->what();
    EXPECT_LT(each.after, (kSilenceLimit + seconds(1) + kWork) * kSlowdown + each.lateness) << each.error->what();
  }
}

// A rank that is cut off does not close its connections. The others leave the world without waiting for it.
TEST(Network, ThatCutsARankOffDelaysNoLeaving) {
  undisturbed(milliseconds(50), [] {
    Proxied world(3);
    std::atomic<std::chrono::nanoseconds> longest{};
    const auto told = world.told(
        [&](World& w) {
          w.barrier();
          if (w.rank() == 0)
            for (const int other : {0, 1}) world.between(other, 2, {.cut_off = true});
          try {
            carry_out_right(w, 1000000, kLarge);
          } catch (const Error&) {
            const auto begin = std::chrono::steady_clock::now();
            if (w.rank() != 2) world::WorldMaker::leave(w);
            longest = std::max(longest.load(), std::chrono::steady_clock::now() - begin);
            throw;
          }
        },
        impatient());
    for (const int rank : {0, 1}) {
      ASSERT_TRUE(told[std::size_t(rank)].error);
      EXPECT_EQ(told[std::size_t(rank)].error->rank(), 2) << told[std::size_t(rank)].error->what();
    }
    EXPECT_LT(longest.load(), milliseconds(400));
  });
}

// A connection ends while both its ranks live.
TEST(Network, ThatLosesAConnectionEndsTheWorldAtOnce) {
  for (const bool half : {false, true}) {
    Proxied world(4);
    Proxy::Fault fault;
    (half ? fault.half_close_at : fault.truncate_at) = kMuch;
    world.between(1, 2, fault);
    const auto told = world.told([](World& w) { carry_out_right(w, 100, kLarge); });
    expect_same_error(told, ErrorCode::rank_dead, seconds(5));
    EXPECT_THAT(told[0].error->rank(), ::testing::AnyOf(1, 2)) << told[0].error->what();
  }
}

// One byte of an operation's data is lost. The receiver then takes the next operation's first byte as the last byte of
// this operation.
TEST(Network, ThatLosesAByteIsFoundOutByTheNextOperation) {
  Proxied world(2);
  world.between(0, 1, {.drop_at = kMuch});
  const auto told = world.told([](World& w) {
    std::vector<float> values(kMuch);
    for (int k = 0; k < 100; k++) w.allreduce(values);
  });
  expect_same_error(told, ErrorCode::protocol, seconds(5));
}

// An idle world has only control connections; after the handshake they carry frames.
TEST(Network, ThatLosesAByteOfTheControlPlaneIsFoundOutByWhoHearsNonsense) {
  undisturbed(milliseconds(100), [&] {
    Proxied world(4);
    world.between(2, 3, {.drop_at = 200});
    const auto told = world.told(
        [](World& w) {
          std::this_thread::sleep_for(3 * kSilenceLimit);
          w.barrier();
        },
        impatient());
    expect_same_error(told, ErrorCode::protocol, seconds(5));
    EXPECT_THAT(told[0].error->rank(), ::testing::AnyOf(2, 3)) << told[0].error->what();
  });
}

// A connection that ends in the handshake without a reason is tried again. If the other side sends a reason, the user
// gets it as an error.
TEST(Network, ThatDamagesAHandshakeIsTriedAgainOrAClearError) {
  for (const auto& [at, why] : {std::pair(0, ""), {5, "protocol version"}, {20, "this is rank 0, not "}}) {
    Proxied world(2);
    world.everywhere({.corrupt_at = at});
    std::string told;
    try {
      expect_right(world.told([](World& w) { w.barrier(); }, impatient()));
    } catch (const Error& e) {
      told = e.what();
    }
    EXPECT_EQ(told.empty(), std::string(why).empty()) << "byte " << at << ": " << told;
    EXPECT_THAT(told, HasSubstr(why)) << "byte " << at;
  }
}

}  // namespace
}  // namespace anello::failure
