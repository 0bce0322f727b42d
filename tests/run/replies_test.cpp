// Two ranks in one thread exchange over shared memory: results return in the memory of the contributions.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <cstring>
#include <iterator>
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/run/driver.hpp"
#include "ring/shm/shm_link.hpp"
#include "tests/run/by_hand.hpp"

namespace anello::run {
namespace {

using shm::MemoryFile;
using shm::ShmLink;

struct Links {
  explicit Links(std::size_t pipe_bytes)
      : file(MemoryFile::create(ShmLink::file_bytes(pipe_bytes))),
        maker(copy(pipe_bytes), pipe_bytes, ShmLink::Side::maker, Descriptor(eventfd(0, EFD_NONBLOCK)), end(0)),
        taker(copy(pipe_bytes), pipe_bytes, ShmLink::Side::taker, Descriptor(eventfd(0, EFD_NONBLOCK)), end(1)) {}
  MemoryFile copy(std::size_t pipe_bytes) const {
    return MemoryFile::adopt(Descriptor(dup(file.descriptor())), ShmLink::file_bytes(pipe_bytes));
  }
  Descriptor end(std::size_t which) {
    if (which == 0) {
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    }
    return Descriptor(ends[which]);
  }
  std::array<int, 2> ends{};
  MemoryFile file;
  ShmLink maker, taker;
};

struct Rank {
  plan::Plan plan;
  Execution execution;
  Driver driver{[](int, const Signature&) { return Error(ErrorCode::mismatch, "other signatures"); }};
  std::array<link::Link*, 2> links{};

  bool replies() const {
    return std::ranges::any_of(plan.steps, [this](const plan::Step& step) { return execution.is_not_sent(step); });
  }
};

void finish(Rank& left, Rank& right) {
  for (int still = 0; still < 3 && !(left.execution.done() && right.execution.done());)
    for (Rank* const rank : {&left, &right})
      if (!rank->execution.done()) still = rank->driver.pass() ? 0 : still + 1;
  ASSERT_TRUE(left.execution.done() && right.execution.done()) << "stuck";
}

struct Case {
  std::uint64_t count;
  std::uint32_t slab;
  std::size_t pipe_bytes;
  bool replies;
};

class Exchange : public testing::TestWithParam<Case> {
 protected:
  void start(Rank& rank, int number, link::Link& link, const Buffer& in, const Buffer& out,
             const Arithmetic& arithmetic = kLopsided, const Scaling* inputs = nullptr,
             const Scaling* results = nullptr) const {
    rank.plan = algorithms::plan_allreduce(Algorithm::two_shot, {.rank = number, .world = 2, .count = GetParam().count},
                                           GetParam().slab);
    rank.execution.start(rank.plan, arithmetic, in, out, results, inputs);
    rank.links[std::size_t(1 - number)] = &link;
    rank.driver.start(rank.execution, {}, rank.links);
    EXPECT_EQ(rank.replies(), GetParam().replies);
  }
};

Words expected(const Words& left, const Words& right) {
  Words all(left.size());
  for (std::size_t i = 0; i < all.size(); i++) all[i] = lopsided(left[i], right[i]);
  return all;
}

TEST_P(Exchange, InPlaceAndApartOverAndOverAgain) {
  Links links(GetParam().pipe_bytes);
  for (std::uint32_t round = 0; round < 3; round++) {
    Words a = numbers(GetParam().count, 10 * round), b = numbers(GetParam().count, 7000), result(a.size());
    const Words both = expected(a, b);
    Rank left, right;
    start(left, 0, links.maker, whole(a), whole(a));
    start(right, 1, links.taker, whole(b), whole(result));
    finish(left, right);
    EXPECT_EQ(a, both);
    EXPECT_EQ(result, both);
  }
}

// Inputs that are multiplied are computed directly in the pipe, or, if they are small, in a stage.
TEST_P(Exchange, OfMultipliedInputs) {
  Links links(GetParam().pipe_bytes);
  const Scaling by_two{
      .divisor = 1, .factor = 2, .multiply = [](void* to, const void* from, std::size_t elems, double) {
        for (std::size_t i = 0; i < elems; i++) {
          std::uint32_t word = 0;
          std::memcpy(&word, static_cast<const std::byte*>(from) + 4 * i, 4);
          word *= 2;
          std::memcpy(static_cast<std::byte*>(to) + 4 * i, &word, 4);
        }
      }};
  Words a = numbers(GetParam().count, 3), b = numbers(GetParam().count, 7000), result(a.size());
  Words twice = b;
  for (std::uint32_t& word : twice) word *= 2;
  const Words both = expected(a, twice), kept = b;
  Rank left, right;
  start(left, 0, links.maker, whole(a), whole(a));
  start(right, 1, links.taker, whole(b), whole(result), kLopsided, &by_two);
  finish(left, right);
  EXPECT_EQ(a, both);
  EXPECT_EQ(result, both);
  EXPECT_EQ(b, kept);
}

// Each rank multiplies its input while it adds or sends the input, and scales the sums in the same pass.
TEST_P(Exchange, OfSumsThatAreScaled) {
  Links links(GetParam().pipe_bytes);
  const Arithmetic sum = arithmetic(DType::f32, Op::sum);
  for (const Scaling& results :
       {Scaling{}, scaling(DType::f32, 2, 1), scaling(DType::f32, 1, 1.3), scaling(DType::f32, 3, 1.3)}) {
    const Scaling inputs = scaling(DType::f32, 1, 0.7);  // of one rank
    std::vector<float> a(GetParam().count), b(a.size()), both(a.size());
    for (std::size_t i = 0; i < a.size(); i++) {
      a[i] = float(i) / 3;
      b[i] = 1 / float(i + 1);
    }
    std::vector<float> left_in = a, right_in = b, result(a.size());
    inputs.multiply(a.data(), a.data(), a.size(), inputs.factor);
    sum.combine(both.data(), a.data(), b.data(), a.size());
    results.apply(both.data(), both.size());
    const auto of = [](std::vector<float>& all) {
      return Buffer(reinterpret_cast<std::byte*>(all.data()), all.size());
    };
    Rank left, right;
    start(left, 0, links.maker, of(left_in), of(left_in), sum, &inputs, &results);
    start(right, 1, links.taker, of(right_in), of(result), sum, nullptr, &results);
    finish(left, right);
    EXPECT_EQ(left_in, both);
    EXPECT_EQ(result, both);
  }
}

// With several pieces in the first send, the data travels while the beginning of the call is recorded.
TEST_P(Exchange, TheFirstSendCarriesMoreThanTheSignature) {
  Links links(GetParam().pipe_bytes);
  const Scaling same{.divisor = 1, .factor = 1, .multiply = [](void* to, const void* from, std::size_t elems, double) {
                       std::memcpy(to, from, 4 * elems);
                     }};
  Words a = numbers(GetParam().count, 3);
  Rank left;
  start(left, 0, links.maker, whole(a), whole(a), kLopsided, &same);
  if (GetParam().count == 1) return;  // only the other rank sends then
  EXPECT_TRUE(left.driver.send());
  EXPECT_GT(left.execution.position(0).first + left.execution.position(0).second, 0) << "no element has moved";
}

// One rank has a list, whose small pieces are packed. One operation may combine elements into two places.
TEST_P(Exchange, OfAListWithAnother) {
  Links links(GetParam().pipe_bytes);
  const std::size_t count = GetParam().count;
  Pieces list({1, count / 2, count - count / 2 - 1}, 50);
  Words b = numbers(count, 9);
  const Words both = expected(list.values(), b);
  Arithmetic twice = kLopsided;
  twice.combine_twice = [](void* out, void* second, const void* l, const void* r, std::size_t elems) {
    Words sums(elems);
    lopsided(sums.data(), l, r, elems);
    std::memcpy(out, sums.data(), 4 * elems);
    std::memcpy(second, sums.data(), 4 * elems);
  };
  Rank left, right;
  start(left, 0, links.maker, list.buffer(), list.buffer(), twice);
  start(right, 1, links.taker, whole(b), whole(b), twice);
  finish(left, right);
  EXPECT_EQ(list.values(), both);
  EXPECT_EQ(b, both);
}

struct Traced {
  double seconds = 0;              // processor time of the call
  std::vector<trace::Span> sends;  // by rank 0
};

Traced traced_exchange(std::uint64_t slabs) {
  constexpr std::uint32_t kSlab = 8, kShift = 2;
  const std::array<int, 2> members{0, 1};
  std::array traces{StepTrace(members), StepTrace(members)};
  Links links(65536);
  std::array<Words, 2> values{numbers(slabs * kSlab, 0), numbers(slabs * kSlab, 7000)};
  std::array<Rank, 2> ranks;
  for (int r = 0; r < 2; r++) {
    Rank& rank = ranks[std::size_t(r)];
    rank.plan = algorithms::plan_allreduce(Algorithm::two_shot, {.rank = r, .world = 2, .count = slabs * kSlab}, kSlab);
    rank.execution.start(rank.plan, kLopsided, whole(values[std::size_t(r)]), whole(values[std::size_t(r)]));
    rank.links[std::size_t(1 - r)] = r == 0 ? &links.maker : &links.taker;
    traces[std::size_t(r)].start(rank.execution, kShift, kShift);
    rank.driver.start(rank.execution, {}, rank.links, &traces[std::size_t(r)]);
    EXPECT_TRUE(rank.replies());
  }
  timespec before{}, after{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  finish(ranks[0], ranks[1]);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  Traced traced{double(after.tv_sec - before.tv_sec) + 1e-9 * double(after.tv_nsec - before.tv_nsec), {}};
  std::ranges::copy_if(traces[0].spans(), std::back_inserter(traced.sends),
                       [](const trace::Span& span) { return span.what == trace::Span::What::send; });
  return traced;
}

// For each slab, a contribution and a result are sent. A call with four times as many slabs as another call must take
// only about four times as long.
TEST(TracedExchange, LooksAtEachStepOnce) {
  constexpr std::uint64_t kSlabs = 8000;
  const Traced few = traced_exchange(kSlabs), many = traced_exchange(4 * kSlabs);
  EXPECT_EQ(few.sends.size(), 2 * kSlabs);
  EXPECT_EQ(many.sends.size(), 8 * kSlabs);
  EXPECT_LT(many.seconds, 9 * few.seconds);
}

// If this thread pauses before it looks, the peer can receive a reply before the look.
TEST(TracedExchange, TheSpanOfAReplyBeginsBeforeItsBytesMove) {
  const Traced traced = traced_exchange(10);
  EXPECT_EQ(traced.sends.size(), 20u);
  for (const trace::Span& send : traced.sends) EXPECT_LT(send.begin, send.end);
}

// The results are replies only if each link holds half a slab and a signature, and if the data can be halved; a single
// element cannot.
INSTANTIATE_TEST_SUITE_P(Pipes, Exchange,
                         testing::Values(Case{1000, 200, 1024, true}, Case{1001, 64, 384, true},
                                         Case{1000, 0, 4096, true}, Case{1000, 0, 2048, false},
                                         Case{1000, 200, 640, false}, Case{2, 0, 320, true},
                                         Case{401, 200, 65536, true}, Case{1, 0, 4096, false},
                                         Case{50'000, 8000, 65536, true}, Case{50'000, 0, 4096, false}));

}  // namespace
}  // namespace anello::run
