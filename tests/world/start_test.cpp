// How worlds start and end: errors name the settings that differ between ranks, and nothing is left behind.
#include <gmock/gmock.h>

#include <anello/version.hpp>
#include <array>
#include <fstream>
#include <future>

#include "ring/algorithms/fingerprint.hpp"
#include "ring/base/text.hpp"
#include "ring/testing/in_process_exchange.hpp"
#include "ring/world/bootstrap.hpp"
#include "ring/world/peer_info.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"
#include "tests/support/worlds.hpp"

namespace anello::world {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

Identity identity_of(int rank, int size) {
  return {.job = "start",
          .rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .host = text("host", rank),
          .address = "127.0.0.1"};
}

// Changes the blob that a rank sends to the others before they connect.
using Change = std::function<std::string(std::size_t rank, std::string blob)>;

// Starts a world with these settings and identities, runs the program on each rank, and returns the error of each rank.
std::vector<Told> start(const std::vector<Settings>& settings, const std::vector<Identity>& identities,
                        const std::function<void(World&)>& program, const Change& change = {}) {
  InProcessExchange hall(int(settings.size()), milliseconds(20000));
  std::vector<std::future<Told>> ranks;
  for (std::size_t r = 0; r < settings.size(); r++)
    ranks.push_back(std::async(std::launch::async, [&, r] {
      Told told{.rank = int(r)};
      const auto began = std::chrono::steady_clock::now();
      const Exchange exchange = [&, r](std::string blob) {
        return hall.exchange(int(r), change && !blob.empty() ? change(r, std::move(blob)) : std::move(blob));
      };
      try {
        World world = WorldMaker::make(identities[r], exchange, settings[r]);
        program(world);
      } catch (const Error& e) {
        told.error = e;
        hall.close();
      }
      told.after = std::chrono::steady_clock::now() - began;
      return told;
    }));
  std::vector<Told> all;
  for (auto& rank : ranks) all.push_back(rank.get());
  return all;
}

std::vector<Identity> identities(int size) {
  std::vector<Identity> all;
  for (int rank = 0; rank < size; rank++) all.push_back(identity_of(rank, size));
  return all;
}

void never(World&) {
  ADD_FAILURE() << "the world came to be";
}

TEST(Start, SettingsThatMustBeEqualAreNamedWithTheRank) {
  for (const int odd : {0, 2}) {
    std::vector<Settings> settings(3);
    settings[std::size_t(odd)].slab_bytes = 1000;
    for (const Told& told : start(settings, identities(3), never)) {
      ASSERT_TRUE(told.error);
      EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
      EXPECT_EQ(told.error->rank(), odd);
      EXPECT_THAT(told.error->what(), AllOf(HasSubstr(odd == 0 ? "ranks 1, 2 have ANELLO_SLAB_BYTES=-1"
                                                               : "ranks 0, 1 have ANELLO_SLAB_BYTES=-1"),
                                            HasSubstr(text("rank ", odd, " has ANELLO_SLAB_BYTES=1000"))));
    }
  }
}

// The first bytes that ranks exchange are the version and the fingerprint of their plans. In another build, the rest
// may have another format.
TEST(Start, AnotherBuildOfTheLibraryIsNamedWithItsRank) {
  const auto refused = [](const Change& change) {
    const std::vector<Told> all = start(std::vector<Settings>(3), identities(3), never, change);
    for (const Told& told : all) {
      EXPECT_TRUE(told.error);
      if (!told.error) return std::string();
      EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
      EXPECT_EQ(told.error->rank(), 2);
      EXPECT_STREQ(told.error->what(), all.front().error->what());
    }
    return all.front().error->message();
  };
  const std::string ours(version());
  const std::string older = refused([&](std::size_t rank, std::string blob) {
    if (rank != 2) return blob;
    const PeerInfo info = decode_peer_info(blob);
    return encode({.version = "0.1.99", .plans = info.plans, .endpoint = info.endpoint}).substr(0, 40);
  });
  EXPECT_EQ(older, text("the library's versions differ: rank 0 on host0 has Anello ", ours,
                        ", rank 2 on host2 has Anello 0.1.99; use the same build on all ranks"));
  const std::string other_plans = refused([&](std::size_t rank, std::string blob) {
    PeerInfo info = decode_peer_info(blob);
    EXPECT_EQ(info.version, ours);
    EXPECT_EQ(info.plans, algorithms::build_fingerprint());
    info.plans = rank + 7 - rank % 2;
    return encode(info);
  });
  EXPECT_EQ(other_plans,
            text("the library's versions are equal, but its algorithms differ: rank 0 on host0 has Anello ", ours,
                 " (plans 7), rank 2 on host2 has Anello ", ours,
                 " (plans 9); use the same build on all "
                 "ranks"));
}

TEST(Start, AnExceptionIsWhyARankLeft) {
  const std::vector<Told> all = start(std::vector<Settings>(3), identities(3), [](World& world) {
    world.barrier();
    if (world.rank() == 1) throw Error(ErrorCode::file, "cannot read part-0007.h5");
    world.barrier();
  });
  for (const int rank : {0, 2}) {
    const Told& told = all[std::size_t(rank)];
    ASSERT_TRUE(told.error);
    EXPECT_EQ(told.error->code(), ErrorCode::rank_left);
    EXPECT_EQ(told.error->rank(), 1);
    EXPECT_THAT(told.error->message(), HasSubstr("rank 1 on host1 left the world after 1 operations, because of an "
                                                 "exception that its own output may name, but rank "));
  }
}

// A world also ends in good order, without a message, while the stack of an earlier exception is unwound.
TEST(Start, AWorldThatEndsInGoodOrderDuringAnExceptionSaysNothing) {
  const std::vector<Told> all = start(std::vector<Settings>(2), identities(2), [](World& world) {
    struct AtEnd {
      ~AtEnd() {
        run_world(2, [](World& inner) { inner.barrier(); });
      }
    };
    world.finish();
    const AtEnd at_end;
    throw Error(ErrorCode::file, "after the end");
  });
  for (const Told& told : all) EXPECT_STREQ(told.error->what(), "after the end");
}

TEST(Start, ATransportThatCannotBeIsRefused) {
  std::vector<Settings> settings(2);
  for (Settings& each : settings) each.transport = "smoke";
  for (const Told& told : start(settings, identities(2), never)) {
    ASSERT_TRUE(told.error);
    EXPECT_THAT(told.error->what(), HasSubstr("ANELLO_TRANSPORT must be auto, tcp or shm, not 'smoke'"));
  }
  for (Settings& each : settings) each = {.shm_bytes = 100};
  for (const Told& told : start(settings, identities(2), never)) {
    ASSERT_TRUE(told.error);
    EXPECT_THAT(told.error->what(), HasSubstr("ANELLO_SHM_BYTES must be a multiple of 64, not 100"));
  }
}

TEST(Start, SettingsThatMayDifferDo) {
  std::vector<Settings> settings(3);
  settings[1].socket_buffer_bytes = 4096;
  settings[2].spin = 0;
  settings[2].yields = 0;
  settings[0].congestion = "system";
  settings[1].congestion = "no-such-algorithm";
  for (const Told& told :
       start(settings, identities(3), [](World& world) { EXPECT_EQ(carry_out(world, {.count = 100'000}), ""); }))
    EXPECT_FALSE(told.error) << told.error->what();
}

TEST(Start, HostsAreKnownToAll) {
  start(std::vector<Settings>(3), identities(3), [](World& world) {
    for (int rank = 0; rank < 3; rank++) EXPECT_EQ(world.host(rank), text("host", rank));
    EXPECT_THROW((void)world.host(3), Error);
  });
}

TEST(Start, ARankThatCannotListenSaysSo) {
  std::vector<Identity> ranks = identities(2);
  ranks[1].address = "192.0.2.1";  // an address for documentation, which no host has
  const std::vector<Told> all = start(std::vector<Settings>(2), ranks, never);
  ASSERT_TRUE(all[1].error);
  EXPECT_EQ(all[1].error->code(), ErrorCode::network);
  EXPECT_THAT(all[1].error->what(), HasSubstr("cannot listen on 192.0.2.1"));
}

TEST(Start, RanksOfAnotherJobGenerationOrRunAreNotLetIn) {
  undisturbed(milliseconds(20), [&] {
    const std::array reasons = {"this is not job 'another'", "generation 2", "it belongs to another run of this job"};
    for (std::size_t field = 0; field < reasons.size(); field++) {
      std::vector<Identity> ranks = identities(2);
      if (field == 0) ranks[1].job = "another";
      if (field == 1) ranks[1].generation = 2;
      if (field == 2) ranks[1].incarnation = 77;
      std::vector<Settings> settings(2);
      for (Settings& s : settings) s.start_timeout = milliseconds(300);
      const std::vector<Told> all = start(settings, ranks, never);
      ASSERT_TRUE(all[0].error && all[1].error);
      EXPECT_THAT(all[0].error->what(), HasSubstr("no connection with rank 1 on host1"));
      EXPECT_EQ(all[1].error->code(), ErrorCode::unauthorized);
      EXPECT_THAT(all[1].error->what(), HasSubstr(reasons[field]));
    }
  });
}

// The other ranks have sent their blobs, but never connect.
TEST(Start, WhoDoesNotConnectInTimeIsNamed) {
  undisturbed(milliseconds(20), [&] {
    Settings settings;
    settings.start_timeout = milliseconds(200);
    const Exchange exchange = [](std::string mine) { return std::vector<std::string>(3, std::move(mine)); };
    const auto began = std::chrono::steady_clock::now();
    try {
      WorldMaker::make(identity_of(0, 3), exchange, settings);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::rendezvous);
      EXPECT_THAT(e.what(), HasSubstr("no connection with rank 1 on host0, rank 2 on host0"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, milliseconds(5000));
  });
}

TEST(Start, BlobsThatAreNoIntroductionAreRefused) {
  for (const std::string& blob : {std::string(), std::string("x"), std::string(10000, '\xff')}) {
    const Exchange exchange = [&](const std::string& mine) { return std::vector<std::string>{mine, blob}; };
    try {
      WorldMaker::make(identity_of(0, 2), exchange, {});
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::protocol) << e.what();
    }
  }
}

// A rank that lacks something names itself in its error. The errors of the other ranks must name this rank, too.
TEST(Start, ARankThatLacksSomethingIsNamed) {
  InProcessExchange hall(2, milliseconds(20000));
  const auto make = [&](int rank) {
    const Exchange exchange = [&hall, rank](std::string blob) {
      if (!blob.empty()) return hall.exchange(rank, std::move(blob));
      if (rank == 1) throw Error(ErrorCode::network, "no descriptor is left", 1);
      return std::vector<std::string>();
    };
    return WorldMaker::make(identity_of(rank, 2), exchange, Settings::from_environment());
  };
  const auto fails = std::async(std::launch::async, [&] { EXPECT_THROW(make(1), Error); });
  try {
    make(0).barrier();
    FAIL() << "it went on alone";
  } catch (const Error& e) {
    EXPECT_EQ(e.rank(), 1);
    EXPECT_THAT(e.what(), HasSubstr("rank 1 on host1 failed during start-up: no descriptor is left"));
  }
}

TEST(Start, TooFewDescriptorsAreAnError) {
  for (std::size_t more = 0; more < 18; more += 3) {
    const FewDescriptors limit(more);
    Settings settings;
    settings.start_timeout = milliseconds(300);
    try {
      run_world(
          2, [](World& world) { world.barrier(); }, settings);
    } catch (const Error& e) {
      EXPECT_THAT(e.code(), AnyOf(ErrorCode::network, ErrorCode::rendezvous, ErrorCode::rank_dead)) << e.what();
    }
  }
}

TEST(Start, WorldsDoNotDisturbEachOther) {
  std::vector<std::future<void>> worlds;
  for (int k = 0; k < 3; k++)
    worlds.push_back(std::async(std::launch::async, [k] {
      run_world(2 + k, [](World& world) {
        for (std::uint64_t count = 1; count < 200; count++) ASSERT_EQ(carry_out(world, {.count = count}), "");
      });
    }));
  for (auto& world : worlds) world.get();
}

// One program is in two worlds at the same time. Tests that need separate groups may do this.
TEST(Start, AThreadMayHaveTwoWorlds) {
  run_world(2, [](World& outer) {
    run_world(3, [](World& inner) { EXPECT_EQ(carry_out(inner, {.count = 10}), ""); });
    EXPECT_EQ(carry_out(outer, {.count = 10}), "");
  });
}

TEST(Start, AHundredWorldsLeaveNothingBehind) {
  run_world(3, [](World& world) { world.barrier(); });  // makes the objects that are made once and stay
  const auto descriptors = open_descriptors(), threads = running_threads(1);
  for (int k = 0; k < 100; k++) {
    try {
      run_world(3, [&](World& world) {
        EXPECT_EQ(carry_out(world, {.count = 1000}), "");
        if (k % 4 == 1) world.finish();
        if (k % 4 == 2 && world.rank() == 1) world.abort("enough");
        if (k % 4 == 3 && world.rank() == 1) throw Error(ErrorCode::file, "no more data");
      });
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  EXPECT_EQ(running_threads(threads), threads);
}

// If the program inherited a connection, it would stay open after this rank's death, and the other ranks would wait.
TEST(Start, AProgramThatARankStartsInheritsNoConnection) {
  const std::set<std::string> before = inherited_sockets();
  for (const std::string transport : {"tcp", "auto"})
    run_world(2,
              [&](World& world) {
                Group pair = world.group({0, 1});
                EXPECT_EQ(carry_out(pair, {.count = 1000}), "");
                world.barrier();
                if (world.rank() == 0) {
                  EXPECT_EQ(inherited_sockets(), before) << transport;
                }
                world.barrier();
              },
              {.transport = transport});
}

// A chain adds the floats 1 + 2^24 + 2^24 from the left, and a ring's chunk begins with another float. So the bits show
// which table is used.
TEST(Start, TheTableOfRank0CountsForAll) {
  const Scratch scratch;
  const std::string path = scratch / "table";
  std::ofstream(path) << "3 1 memory shared any chain 0\n3 1 memory own any chain 0\n"
                      << "3 1 tcp shared any chain 0\n3 1 tcp own any chain 0\n";
  const auto sums = [](const std::vector<Settings>& settings) {
    std::vector<float> result;
    std::vector<Identity> identities;
    for (int rank = 0; rank < 3; rank++) identities.push_back(identity_of(rank, 3));
    const std::vector<Told> all = start(settings, identities, [&](World& world) {
      std::vector<float> values(3, world.rank() == 0 ? 1.F : world.rank() == 1 ? 0x1p24F : -0x1p24F);
      world.allreduce(values, Op::sum, {.slab_bytes = 0});
      if (world.rank() == 0) result = values;
    });
    for (const Told& told : all) EXPECT_FALSE(told.error) << told.error->what();
    return result;
  };
  std::vector<Settings> settings(3, Settings::from_environment());
  for (Settings& each : settings) each.algorithm = "ring";
  const std::vector<float> ring = sums(settings);
  for (Settings& each : settings) each.algorithm = "chain";
  const std::vector<float> chain = sums(settings);
  ASSERT_NE(ring, chain);
  for (Settings& each : settings) each.algorithm = "auto";
  settings[0].table = path;
  settings[2].table = "/nowhere";
  EXPECT_EQ(sums(settings), chain);
  settings[0].table = "/nowhere";
  const std::vector<Told> refused = start({settings[0]}, {identity_of(0, 2)}, [](World&) {});
  ASSERT_TRUE(refused[0].error);
  EXPECT_THAT(refused[0].error->what(), HasSubstr("ANELLO_TABLE='/nowhere' cannot be read"));
}

}  // namespace
}  // namespace anello::world
