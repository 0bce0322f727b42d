// Transfers from one rank to another, at the same time as other operations.
#include <gmock/gmock.h>

#include <anello/memory.hpp>
#include <atomic>
#include <functional>
#include <future>
#include <initializer_list>
#include <numeric>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/support/random.hpp"
#include "tests/support/resources.hpp"
#include "tests/support/worlds.hpp"

namespace anello::group {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

std::vector<std::int32_t> message(int from, int to, std::size_t count) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), 1000 * from + to);
  return values;
}

class TransfersInWorldsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, TransfersInWorldsOf, testing::Values(2, 3, 4, 7));

// Every rank sends to all others before any rank receives. It receives in a different order than it sends.
TEST_P(TransfersInWorldsOf, ArriveWhateverTheOrderOfPeers) {
  run_world(GetParam(), [](World& world) {
    const int n = world.size(), rank = world.rank();
    for (const std::size_t count : {0, 1, 1000, 100'000}) {
      std::vector<std::vector<std::int32_t>> out, in;
      std::vector<Work> work;
      for (int to = 0; to < n; to++) {
        out.push_back(message(rank, to, count));
        in.emplace_back(count);
        if (to != rank) work.push_back(world.send_async(out.back(), to));
      }
      for (int k = 1; k < n; k++) {
        const int from = (rank + k) % n;
        if (count != 0) world.recv(in[std::size_t(from)], from);
        if (count == 0) work.push_back(world.recv_async(in[std::size_t(from)], from));
        EXPECT_TRUE(in[std::size_t(from)] == message(from, rank, count)) << from << " to " << rank;
      }
      for (Work& each : work) each.wait();
    }
  });
}

TEST_P(TransfersInWorldsOf, KeepTheirOrderAndDoNotDisturbOthers) {
  run_world(GetParam(), [](World& world) {
    const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
    for (int k = 0; k < 100 / std::min(kSlowdown, 4); k++) {
      const std::vector<std::int32_t> out = message(world.rank(), k, std::size_t(k * 37 + 1));
      std::vector<std::int32_t> in(out.size());
      Work sent = world.send_async(out, next);
      if (k % 3 == 0) {
        EXPECT_EQ(carry_out(world, {.count = 100}), "");
      }
      world.recv(in, previous);
      sent.wait();
      EXPECT_TRUE(in == message(previous, k, out.size())) << k;
    }
  });
}

TEST(Transfers, ThatWereStartedWaitForNobody) {
  run_world(2, [](World& world) {
    const std::vector<double> values(10, 1.5);
    Work sent;
    if (world.rank() == 0) sent = world.send_async(values, 1);
    world.barrier();
    if (world.rank() == 1) {
      std::vector<double> received(10);
      world.recv(received, 0);
      EXPECT_EQ(received, values);
    }
    sent.wait();
  });
}

// Even a transfer without elements sends a signature.
TEST(Transfers, ThatAreSmallNeedNoReceiverYet) {
  for (const std::size_t count : {0, 1}) {
    std::promise<void> sent;
    run_world(2, [&](World& world) {
      std::vector<float> values(count, 1.5F), received(count);
      if (world.rank() == 1) {
        world.send(values, 0);
        sent.set_value();
      } else {
        EXPECT_EQ(sent.get_future().wait_for(seconds(20)), std::future_status::ready) << count << " elements";
        world.recv(received, 1);
        EXPECT_EQ(received, values);
      }
    });
  }
}

TEST(Transfers, ThatAreSmallMayCross) {
  for (const std::size_t count : {0, 1})
    run_world(2, [&](World& world) {
      std::vector<float> values(count, float(world.rank())), received(count);
      world.send(values, 1 - world.rank());
      world.recv(received, 1 - world.rank());
      EXPECT_EQ(received, std::vector<float>(count, float(1 - world.rank())));
    });
}

TEST(Transfers, WithAndWithoutElementsDoNotMatch) {
  for (const Told& told : told_on_all_ranks(2, [](World& world) {
         std::vector<float> values(3);
         if (world.rank() == 1) world.send(std::span(values).first(0), 0);
         if (world.rank() == 0) world.recv(values, 1);
         world.barrier();
       })) {
    ASSERT_TRUE(told.error) << "rank " << told.rank;
    EXPECT_THAT(told.error->message(), HasSubstr("rank 1 calls transfer #0 (0 f32)"));
  }
}

TEST(Transfers, OfGroupsHaveTheirOwnOrder) {
  run_world(3, [](World& world) {
    if (world.rank() == 1) return;
    Group pair = world.group({2, 0});
    const std::vector<int> first(1, 1), second(1, 2);
    std::vector<int> received(1);
    if (world.rank() == 0) {
      Work sent = world.send_async(first, 2);
      pair.send(second, 0);
      sent.wait();
    } else {
      pair.recv(received, 1);
      EXPECT_EQ(received, second);
      world.recv(received, 0);
      EXPECT_EQ(received, first);
    }
  });
}

TEST(Transfers, ThatDoNotMatchAreNamed) {
  const std::vector<Told> all = told_on_all_ranks(3, [](World& world) {
    world.barrier();
    std::vector<float> values(10);
    if (world.rank() == 2) world.send(std::span(values).first(9), 0);
    if (world.rank() == 0) world.recv(values, 2);
    world.barrier();
  });
  for (const Told& told : all) {
    ASSERT_TRUE(told.error) << "rank " << told.rank << " was told nothing";
    EXPECT_EQ(told.error->code(), ErrorCode::mismatch);
    EXPECT_THAT(told.error->message(), AllOf(HasSubstr("in the transfers from rank 2 to rank 0 the counts differ"),
                                             HasSubstr("rank 2 calls transfer #0 (9 f32)")));
    EXPECT_LT(told.after, seconds(2) + told.lateness);
  }
}

// A call without a descriptor fails without consequences: nothing has begun, and the call succeeds when there are
// descriptors again.
TEST(Transfers, AndGroupsWithoutADescriptorSaySoAndCanBeTriedAgain) {
  run_world(2, [](World& world) {
    std::vector<int> values(10, world.rank());
    Group group = world.group({0, 1});
    for (int warm = 0; warm < 3; warm++) world.barrier();
    if (world.rank() == 0) {
      wait_for_descriptors_to_settle();
      const FewDescriptors none(0);
      for (const std::function<void()>& call : std::initializer_list<std::function<void()>>{
               [&] { world.send_async(values, 1).wait(); }, [&] { world.send(values, 1); },
               [&] { group.recv_async(values, 1).wait(); },
               [&] {
                 static_cast<void>(world.group({0, 1}));
               }}) {
        try {
          call();
          ADD_FAILURE() << "a descriptor was to be had";
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ErrorCode::network);
          EXPECT_THAT(e.what(), AllOf(HasSubstr("Too many open files"), HasSubstr("ulimit -n")));
        }
      }
    }
    world.barrier();
    if (world.rank() == 0)
      world.send_async(values, 1).wait();
    else
      world.recv_async(values, 0).wait();
    EXPECT_EQ(values[9], 0);
    Group later = world.group({0, 1});
    later.barrier();
  });
}

TEST(Transfers, ToNobodyAreRefused) {
  run_world(2, [](World& world) {
    std::vector<float> values(10);
    const auto refusal = [&](int peer) -> std::string {
      try {
        world.send(values, peer);
      } catch (const Error& e) {
        return e.what();
      }
      return "";
    };
    EXPECT_THAT(refusal(2), HasSubstr("send: peer 2 is not one of 2 ranks"));
    EXPECT_THAT(refusal(world.rank()), HasSubstr("send: a rank cannot be its own peer"));
    EXPECT_THROW(world.recv(Tensor(nullptr, 3, DType::f32), 1 - world.rank()), Error);
  });
}

// An exception destroys a tensor that is being sent, and then its world. The other rank gets an error, unless the
// tensor was sent before.
TEST(Transfer, ATensorWhoseSenderHasLeftIsRightOrAnError) {
  std::atomic<bool> left = false;
  const std::vector<Told> all = told_on_all_ranks(2, [&](World& world) {
    std::vector<float, Allocator<float>> values(262'144);
    if (world.rank() == 0) {
      World ends = std::move(world);
      std::vector<float, Allocator<float>> tensor(values.size(), 1.F);
      ends.send(tensor, 1);
      Work work = ends.send_async(tensor, 1);
      (void)work.wait_for(std::chrono::milliseconds(100));
    } else {
      world.recv(values, 0);
      EXPECT_EQ(values.back(), 1.F);
      while (!left) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      world.recv(values, 0);
      for (const float value : values) ASSERT_EQ(value, 1.F);
    }
    left = true;
  });
  if (!all[1].error) return;
  EXPECT_EQ(all[1].error->code(), ErrorCode::rank_left) << all[1].error->what();
}

}  // namespace
}  // namespace anello::group
