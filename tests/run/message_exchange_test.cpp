// What one message each way becomes, beside the driver and execution that it replaces.
#include "ring/run/message_exchange.hpp"

#include <gtest/gtest.h>

#include "ring/algorithms/plans.hpp"
#include "tests/run/runs_link.hpp"
#include "tests/support/signatures.hpp"

namespace anello::run {
namespace {

// An operation of `count` words; of the parts of one rank where ranks have parts.
plan::Plan plan_for(Kind kind, int rank, int world, std::uint64_t count, Algorithm algorithm = Algorithm::one_shot) {
  Signature signature = operation(3, 0);
  signature.kind = kind;
  signature.algorithm = algorithm;
  signature.count = count;
  return algorithms::plan_of(signature, {.rank = rank, .world = world, .count = count});
}

TEST(MessageExchange, SuitsPlansOfOneShortMessageEachWay) {
  const Arithmetic words = arithmetic(DType::u32, Op::sum);
  const auto suits = [&](const plan::Plan& plan) { return MessageExchange::suits(plan, words); };
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(suits(plan_for(Kind::allreduce, rank, 2, 2048)));
    EXPECT_FALSE(suits(plan_for(Kind::allreduce, rank, 2, 2049))) << "long";
    EXPECT_FALSE(suits(plan_for(Kind::allreduce, rank, 2, 8, Algorithm::two_shot))) << "two messages";
    for (const Kind kind : {Kind::transfer, Kind::broadcast, Kind::reduce, Kind::gather, Kind::scatter, Kind::allgather,
                            Kind::reduce_scatter, Kind::alltoall})
      EXPECT_TRUE(suits(plan_for(kind, rank, 2, 7, Algorithm::automatic))) << name(kind) << ", rank " << rank;
  }
  EXPECT_FALSE(suits(plan_for(Kind::allreduce, 0, 2, 8, Algorithm::tree))) << "sends what it receives";
  EXPECT_FALSE(suits(plan_for(Kind::allreduce, 0, 3, 8))) << "two peers";
  EXPECT_FALSE(suits(plan_for(Kind::allreduce, 0, 1, 8))) << "no peer";
  EXPECT_FALSE(suits(plan_for(Kind::allgather, 0, 3, 8, Algorithm::ring))) << "two messages to one peer";
  EXPECT_FALSE(MessageExchange::suits(plan_for(Kind::allreduce, 0, 2, 8), arithmetic(DType::f32, Op::sum, DType::f16)))
      << "narrowed";
}

// This rank's part of an operation of two ranks in place, whose other one sends what `link` shows.
struct OneMessage {
  OneMessage(Kind kind, int its_rank, std::uint64_t count, Algorithm algorithm = Algorithm::one_shot)
      : rank(its_rank), plan(plan_for(kind, rank, 2, count, algorithm)), words(numbers(count, 1)) {
    signature.count = count;
  }
  void start(const Scaling* results = nullptr) {
    links[1 - rank] = &link;
    exchange.start(plan, kLopsided, whole(words), whole(words), results, signature, links);
  }
  // Until nothing moves any more.
  void run() {
    while (exchange.pass()) continue;
  }

  int rank;
  plan::Plan plan;
  Signature signature = operation(3, 0);
  Words words;
  RunsLink link;
  link::Link* links[2] = {nullptr, nullptr};
  std::optional<Signature> theirs;  // which differs
  MessageExchange exchange{[this](int peer, const Signature& other) {
    theirs = other;
    return Error(ErrorCode::mismatch, "signatures differ", peer + 70);
  }};
};

using Progress = std::pair<std::uint64_t, std::uint64_t>;

TEST(MessageExchange, SendsTheSignatureWithTheData) {
  using Sizes = std::vector<std::size_t>;
  for (const bool joins : {true, false}) {
    OneMessage one(Kind::allreduce, 0, 6);
    one.link.joins = joins;
    one.link.takes = 50;
    one.start();
    EXPECT_TRUE(one.exchange.send());
    EXPECT_EQ(one.link.sent, joins ? Sizes{72} : (Sizes{48, 24}));
    one.exchange.send();
    EXPECT_EQ(one.link.sent, joins ? Sizes{22} : (Sizes{0, 22})) << "the rest";
    EXPECT_FALSE(one.exchange.send());
    EXPECT_EQ(one.exchange.progress(), Progress(24, 48));
  }
}

using CutAndShown = std::tuple<std::size_t, bool>;
class InParts : public testing::TestWithParam<CutAndShown> {
 protected:
  void receive(OneMessage& exchange, const Signature& theirs, const Words& data) {
    std::tie(exchange.link.cut, exchange.link.shows) = GetParam();
    exchange.link.incoming = message(theirs, data);
    exchange.start();
    exchange.run();
  }
};
INSTANTIATE_TEST_SUITE_P(Cut, InParts, testing::Combine(testing::Values(0, 1, 8, 47, 48, 49, 71), testing::Bool()));

TEST_P(InParts, IsCombinedInTheOrderOfTheRanks) {
  for (const int rank : {0, 1}) {
    OneMessage one(Kind::allreduce, rank, 6);
    receive(one, one.signature, numbers(6, 100));
    EXPECT_TRUE(one.exchange.done());
    for (std::uint32_t k = 0; k < 6; k++)
      EXPECT_EQ(one.words[k], rank == 0 ? lopsided(1 + k, 100 + k) : lopsided(100 + k, 1 + k));
    EXPECT_EQ(one.link.consumed, 72);
  }
}

TEST_P(InParts, IsCopiedWhereNothingIsReduced) {
  OneMessage one(Kind::broadcast, 1, 6, Algorithm::chain);
  receive(one, one.signature, numbers(6, 100));
  EXPECT_TRUE(one.exchange.done());
  EXPECT_EQ(one.words, numbers(6, 100));
}

// The error is the one that the caller makes, with its rank.
TEST_P(InParts, ADifferentSignatureIsExplained) {
  OneMessage one(Kind::allreduce, 0, 6);
  Signature theirs = one.signature;
  theirs.sequence++;
  try {
    receive(one, theirs, numbers(6, 100));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.rank(), 71);
  }
  EXPECT_EQ(one.theirs, theirs);
  EXPECT_EQ(one.words, numbers(6, 1)) << "nothing is made of its data";
  EXPECT_EQ(one.exchange.progress(), Progress(24, 48)) << "what was sent";
}

TEST(MessageExchange, ADifferentSignatureIsFoundThoughLessDataComes) {
  for (const bool shows : {true, false}) {
    OneMessage one(Kind::allreduce, 0, 6);
    Signature theirs = one.signature;
    theirs.kind = Kind::barrier;
    one.link.shows = shows;
    one.link.incoming = message(theirs, {});
    one.start();
    EXPECT_THROW(one.run(), Error);
    EXPECT_EQ(one.theirs, theirs);
  }
}

TEST_P(InParts, IsTakenInTheNextOperationToo) {
  OneMessage one(Kind::allreduce, 0, 6);
  one.link.shows = true;
  one.link.incoming = message(one.signature, numbers(6, 100));
  one.start();
  one.run();
  ASSERT_TRUE(one.exchange.done());
  one.words = numbers(6, 1);
  one.link.consumed = 0;
  receive(one, one.signature, numbers(6, 200));
  EXPECT_TRUE(one.exchange.done());
  EXPECT_EQ(one.words[5], lopsided(6, 205));
  EXPECT_EQ(one.exchange.progress(), Progress(48, 48));
}

TEST(MessageExchange, TellsItsLinkOfEachDirectionAndRefersToNothing) {
  OneMessage one(Kind::allreduce, 0, 6);
  one.start();
  EXPECT_EQ(one.link.begun, (std::vector<std::pair<bool, bool>>{{true, false}, {false, false}}));
  one.exchange.send();
  std::vector<link::Wanted> wanted;
  one.exchange.each_wanted([&](const link::Link&, link::Wanted what) { wanted.push_back(what); });
  EXPECT_EQ(wanted, std::vector{link::Wanted::bytes});
}

TEST(MessageExchange, ErrorsOfALinkGetThePeersRank) {
  for (const bool shows : {true, false})
    for (const bool sends : {true, false}) {
      OneMessage one(Kind::allreduce, 0, 6);
      one.link.shows = shows;
      one.start();
      if (!sends) one.exchange.send();
      one.link.broken = true;
      try {
        one.exchange.pass();
        FAIL();
      } catch (const Error& e) {
        EXPECT_EQ(e.rank(), 1);
      }
    }
}

// In place: what is made of the peer's data would be sent to it.
TEST(MessageExchange, WritesNothingBeforeAllIsSent) {
  for (const bool shows : {true, false}) {
    OneMessage one(Kind::allreduce, 0, 6);
    one.link.joins = false;
    one.link.takes = 0;
    one.link.shows = shows;
    one.link.incoming = message(one.signature, numbers(6, 100));
    one.start();
    one.run();
    EXPECT_EQ(one.words, numbers(6, 1));
    EXPECT_FALSE(one.exchange.done());
    EXPECT_EQ(one.link.consumed, 72) << "a peer that does the same has room to send";
    std::vector<link::Wanted> wanted;
    one.exchange.each_wanted([&](const link::Link&, link::Wanted what) { wanted.push_back(what); });
    EXPECT_EQ(wanted, std::vector{link::Wanted::room});
    one.link.takes = 30;
    one.run();
    EXPECT_TRUE(one.exchange.done());
    EXPECT_EQ(one.words[5], lopsided(6, 105));
  }
}

TEST(MessageExchange, CopiesWhatThisRankKeeps) {
  OneMessage one(Kind::allgather, 1, 3, Algorithm::automatic);
  Words gathered(6, 0);
  one.links[0] = &one.link;
  one.link.incoming = message(one.signature, numbers(3, 100));
  one.exchange.start(one.plan, kLopsided, whole(one.words), whole(gathered), nullptr, one.signature, one.links);
  EXPECT_TRUE(one.exchange.send());
  EXPECT_FALSE(one.exchange.done());
  EXPECT_EQ(gathered[3], 0U) << "the link first";
  one.run();
  EXPECT_TRUE(one.exchange.done());
  EXPECT_EQ(gathered, (Words{100, 101, 102, 1, 2, 3}));
}

TEST(MessageExchange, ScalesWhatItReduces) {
  OneMessage one(Kind::allreduce, 0, 2);
  std::vector<float> values{1, 5};
  const Buffer buffer(reinterpret_cast<std::byte*>(values.data()), 2);
  const Scaling by = scaling(DType::f32, 2, 10);
  one.links[1] = &one.link;
  one.link.incoming = message(one.signature, {std::bit_cast<std::uint32_t>(3.0f), std::bit_cast<std::uint32_t>(7.0f)});
  one.exchange.start(one.plan, arithmetic(DType::f32, Op::sum), buffer, buffer, &by, one.signature, one.links);
  one.run();
  EXPECT_EQ(values, (std::vector<float>{20, 60}));
}

}  // namespace
}  // namespace anello::run
