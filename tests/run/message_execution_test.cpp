// MessageExecution: receives and sends short messages as a whole, and replaces Execution and Driver for them.
#include "ring/run/message_execution.hpp"

#include <gtest/gtest.h>

#include "ring/plan/plan_builder.hpp"
#include "tests/run/member.hpp"

namespace anello::run {
namespace {

using plan::PlanBuilder;
using plan::Range;
using plan::Space;

TEST(MessageExecution, SuitsPlansOfShortSteps) {
  const Arithmetic words = arithmetic(DType::u32, Op::sum);
  const auto suits = [&](const plan::Plan& plan) { return MessageExecution::suits(plan, words); };
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(suits(plan_for(Kind::allreduce, rank, 2, 2048)));
    EXPECT_FALSE(suits(plan_for(Kind::allreduce, rank, 2, 2049))) << "long";
    EXPECT_FALSE(suits(plan_for(Kind::allreduce, rank, 2, 8, Algorithm::two_shot))) << "its link may give replies";
    for (const Kind kind : {Kind::transfer, Kind::broadcast, Kind::reduce, Kind::gather, Kind::scatter, Kind::allgather,
                            Kind::reduce_scatter, Kind::alltoall})
      EXPECT_TRUE(suits(plan_for(kind, rank, 2, 7, Algorithm::automatic))) << name(kind) << ", rank " << rank;
  }
  for (const Algorithm algorithm : all_algorithms())
    EXPECT_TRUE(suits(plan_for(Kind::allreduce, 1, 4, 8, algorithm))) << name(algorithm);
  EXPECT_FALSE(suits(plan_for(Kind::allreduce, 0, 1, 8))) << "no peer";
  EXPECT_FALSE(MessageExecution::suits(plan_for(Kind::allreduce, 0, 2, 8), arithmetic(DType::f32, Op::sum, DType::f16)))
      << "narrowed";
  const Pieces pieces({1, 1}, 0);
  const Scaling by = scaling(DType::f32, 1, 2);
  const Buffer one(nullptr, 2);
  EXPECT_TRUE(MessageExecution::suits(one, one, nullptr));
  EXPECT_FALSE(MessageExecution::suits(pieces.buffer(), one, nullptr));
  EXPECT_FALSE(MessageExecution::suits(one, pieces.buffer(), nullptr));
  EXPECT_FALSE(MessageExecution::suits(one, one, &by));
}

using Wants = std::vector<std::pair<int, link::Wanted>>;
using Progress = std::pair<std::uint64_t, std::uint64_t>;

TEST(MessageExecution, SendsTheSignatureWithTheData) {
  using Sizes = std::vector<std::size_t>;
  for (const bool joins : {true, false}) {
    Member one(Kind::allreduce, 0, 6);
    one.link.joins = joins;
    one.link.takes = 50;
    one.start();
    EXPECT_TRUE(one.execution.send());
    EXPECT_EQ(one.link.sent, joins ? Sizes{72} : (Sizes{48, 24}));
    one.execution.send();
    EXPECT_EQ(one.link.sent, Sizes{22}) << "the rest";
    EXPECT_FALSE(one.execution.send());
    EXPECT_EQ(one.execution.progress(), Progress(24, 48));
  }
}

using CutAndShown = std::tuple<std::size_t, bool>;
class InParts : public testing::TestWithParam<CutAndShown> {
 protected:
  void receive(Member& one, const Signature& theirs, const Words& data) {
    std::tie(one.link.cut, one.link.shows) = GetParam();
    one.link.incoming = message(theirs, data);
    one.start();
    one.run();
  }
};
INSTANTIATE_TEST_SUITE_P(Cut, InParts, testing::Combine(testing::Values(0, 1, 8, 47, 48, 49, 71), testing::Bool()));

TEST_P(InParts, IsCombinedInTheOrderOfTheRanks) {
  for (const int rank : {0, 1}) {
    Member one(Kind::allreduce, rank, 6);
    receive(one, one.signature, numbers(6, 100));
    EXPECT_TRUE(one.execution.done());
    for (std::uint32_t k = 0; k < 6; k++)
      EXPECT_EQ(one.words[k], rank == 0 ? lopsided(1 + k, 100 + k) : lopsided(100 + k, 1 + k));
    EXPECT_EQ(one.link.consumed, 72);
  }
}

TEST_P(InParts, IsCopiedWhereNothingIsReduced) {
  Member one(Kind::broadcast, 1, 6, Algorithm::chain);
  receive(one, one.signature, numbers(6, 100));
  EXPECT_TRUE(one.execution.done());
  EXPECT_EQ(one.words, numbers(6, 100));
}

// The error must be the error that the caller's function makes, with its rank.
TEST_P(InParts, ADifferentSignatureIsExplained) {
  Member one(Kind::allreduce, 0, 6);
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
  EXPECT_EQ(one.execution.progress(), Progress(24, 48)) << "what was sent";
}

TEST(MessageExecution, ADifferentSignatureIsFoundThoughLessDataComes) {
  for (const bool shows : {true, false}) {
    Member one(Kind::allreduce, 0, 6);
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
  Member one(Kind::allreduce, 0, 6);
  one.link.shows = true;
  one.link.incoming = message(one.signature, numbers(6, 100));
  one.start();
  one.run();
  ASSERT_TRUE(one.execution.done());
  one.words = numbers(6, 1);
  one.link.consumed = 0;
  receive(one, one.signature, numbers(6, 200));
  EXPECT_TRUE(one.execution.done());
  EXPECT_EQ(one.words[5], lopsided(6, 205));
  EXPECT_EQ(one.execution.progress(), Progress(48, 48));
}

TEST(MessageExecution, TellsItsLinkOfEachDirectionAndRefersToNothing) {
  Member one(Kind::allreduce, 0, 6);
  one.start();
  EXPECT_EQ(one.link.begun, (std::vector<std::pair<bool, bool>>{{true, false}, {false, false}}));
  one.execution.send();
  EXPECT_EQ(one.wanted(), (Wants{{1, link::Wanted::bytes}}));
}

TEST(MessageExecution, ErrorsOfALinkGetThePeersRank) {
  for (const bool shows : {true, false})
    for (const bool sends : {true, false}) {
      Member one(Kind::allreduce, 0, 6);
      one.link.shows = shows;
      one.start();
      if (!sends) one.execution.send();
      one.link.broken = true;
      try {
        one.execution.pass();
        FAIL();
      } catch (const Error& e) {
        EXPECT_EQ(e.rank(), 1);
      }
    }
}

// The call is in place. So if a result were written too early, it would be sent to the peer instead of the input.
TEST(MessageExecution, WritesNothingBeforeAllIsSent) {
  for (const bool shows : {true, false}) {
    Member one(Kind::allreduce, 0, 6);
    one.link.joins = false;
    one.link.takes = 0;
    one.link.shows = shows;
    one.link.incoming = message(one.signature, numbers(6, 100));
    one.start();
    one.run();
    EXPECT_EQ(one.words, numbers(6, 1));
    EXPECT_FALSE(one.execution.done());
    EXPECT_EQ(one.link.consumed, 72) << "a peer that does the same has room to send";
    EXPECT_EQ(one.wanted(), (Wants{{1, link::Wanted::room}}));
    one.link.takes = 30;
    one.run();
    EXPECT_TRUE(one.execution.done());
    EXPECT_EQ(one.words[5], lopsided(6, 105));
  }
}

TEST(MessageExecution, CopiesWhatThisRankKeeps) {
  Member one(Kind::allgather, 1, 3, Algorithm::automatic);
  Words gathered(6, 0);
  one.link.incoming = message(one.signature, numbers(3, 100));
  one.start(whole(one.words), whole(gathered), kLopsided);
  EXPECT_TRUE(one.execution.send());
  EXPECT_FALSE(one.execution.done());
  EXPECT_EQ(gathered[3], 0U) << "the link first";
  one.run();
  EXPECT_TRUE(one.execution.done());
  EXPECT_EQ(gathered, (Words{100, 101, 102, 1, 2, 3}));
}

TEST(MessageExecution, ScalesWhatItReduces) {
  Member one(Kind::allreduce, 0, 2);
  std::vector<float> values{1, 5};
  const Buffer buffer(reinterpret_cast<std::byte*>(values.data()), 2);
  const Scaling by = scaling(DType::f32, 2, 10);
  one.link.incoming = message(one.signature, {std::bit_cast<std::uint32_t>(3.0f), std::bit_cast<std::uint32_t>(7.0f)});
  one.start(buffer, buffer, arithmetic(DType::f32, Op::sum), by);
  one.run();
  EXPECT_EQ(values, (std::vector<float>{20, 60}));
}

// The order of the fold must not depend on the order in which the messages arrive.
TEST(MessageExecution, FoldsInTheOrderOfTheRanks) {
  for (const bool shows : {true, false})
    for (const std::array order : {std::array{0, 1, 3}, std::array{3, 1, 0}, std::array{1, 0, 3}}) {
      Member one(Kind::allreduce, 2, 6, Algorithm::one_shot, 4);
      for (RunsLink& link : one.of) link.shows = shows;
      one.start();
      for (const int peer : order) {
        EXPECT_FALSE(one.execution.done());
        one.send(peer, numbers(6, 100 * std::uint32_t(peer)));
        one.run();
      }
      EXPECT_TRUE(one.execution.done());
      const Words left = combined(combined(numbers(6, 0), numbers(6, 100)), numbers(6, 1));
      EXPECT_EQ(one.words, combined(left, numbers(6, 300)));
      for (const int peer : order) EXPECT_EQ(one.of[std::size_t(peer)].sent.back(), 72);
    }
}

TEST(MessageExecution, LeavesOnItsLinkWhatComesBeforeItsTurn) {
  for (const bool shows : {true, false}) {
    Member root(Kind::allreduce, 0, 6, Algorithm::star, 3);
    for (RunsLink& link : root.of) link.shows = shows;
    root.start();
    root.send(2, numbers(6, 200));
    root.run();
    EXPECT_EQ(root.words, numbers(6, 1));
    EXPECT_EQ(root.of[2].consumed, 0);
    EXPECT_EQ(root.wanted(), (Wants{{1, link::Wanted::bytes}})) << "not rank 2's";
    EXPECT_EQ(root.execution.progress(), (Progress{0, 96}));
    root.send(1, numbers(6, 100));
    root.run();
    EXPECT_TRUE(root.execution.done());
    EXPECT_EQ(root.words, combined(combined(numbers(6, 1), numbers(6, 100)), numbers(6, 200)));
    EXPECT_EQ(root.of[1].sent, root.of[2].sent);
    EXPECT_EQ(root.execution.progress(), (Progress{96, 96}));
  }
}

// In each direction, only the first message has the signature.
TEST(MessageExecution, SendsOnWhatItReduced) {
  for (const bool shows : {true, false}) {
    Member middle(Kind::allreduce, 1, 6, Algorithm::chain, 3);
    for (RunsLink& link : middle.of) link.shows = shows;
    middle.start();
    middle.run();
    EXPECT_TRUE(middle.of[0].sent.empty());
    middle.send(0, numbers(6, 100));
    middle.run();
    const Words sum = combined(numbers(6, 100), numbers(6, 1));
    EXPECT_EQ(middle.words, sum);
    EXPECT_EQ(middle.of[2].sent, std::vector<std::size_t>{72});
    EXPECT_EQ(middle.wanted(), (Wants{{2, link::Wanted::bytes}}));
    middle.send(2, numbers(6, 500));
    middle.run();
    EXPECT_TRUE(middle.execution.done());
    EXPECT_EQ(middle.words, numbers(6, 500));
    EXPECT_EQ(middle.of[0].sent, std::vector<std::size_t>{72});
  }
}

TEST(MessageExecution, SendsTheSignatureOnceInEachDirection) {
  Member one(Kind::allgather, 0, 2, Algorithm::ring, 3);
  Words gathered(6, 0);
  one.start(whole(one.words), whole(gathered), kLopsided);
  EXPECT_TRUE(one.execution.send());
  EXPECT_EQ(one.of[1].sent, std::vector<std::size_t>{56});
  one.send(2, numbers(2, 300));
  const Words rest = numbers(2, 200);
  one.of[2].incoming.append(reinterpret_cast<const char*>(rest.data()), 8);
  one.run();
  EXPECT_TRUE(one.execution.done());
  EXPECT_EQ(gathered, (Words{1, 2, 200, 201, 300, 301}));
  EXPECT_EQ(one.of[1].sent, std::vector<std::size_t>{8});
}

// If a rank looks at links without success, it keeps its core from other ranks.
TEST(MessageExecution, LooksAtTwoEmptyLinksInAPass) {
  Member one(Kind::allreduce, 0, 6, Algorithm::one_shot, 5);
  one.start();
  std::vector<int> looks(one.of.size());
  for (const int pass : {1, 2, 3}) {
    one.execution.pass();
    for (std::size_t peer = 0; peer < looks.size(); peer++) looks[peer] = one.of[peer].looks;
    EXPECT_EQ(std::accumulate(looks.begin(), looks.end(), 0), 2 * pass);
  }
  EXPECT_EQ(looks, (std::vector{0, 1, 1, 1, 3}))
      << "rank 4's, which comes first in the program, and the others in turn";
}

// Rank 0's part of a plan of 8 ranks with parts of 6 words.
struct Parts {
  PlanBuilder builder{{.rank = 0, .world = 8, .output_elems = 48}};
  static Range part(int k) { return {6 * std::uint64_t(k), 6}; }
  void send(int peer, int k) { builder.send(peer, part(k), Space::output); }
  void copy(int peer, int k) { builder.copy(peer, part(k)); }
};

// A message that waits for a send must be taken as soon as the send is done, even if many links are empty, because no
// link would wake this rank later.
TEST(MessageExecution, TakesWhatItKeptThoughOtherLinksHaveNothing) {
  for (int vain = 0; vain < 7; vain++) {
    Member one(Kind::allgather, 0, 48, Algorithm::ring, 8);
    Parts parts;
    for (int peer = 1; peer < 7; peer++) parts.copy(peer, peer);
    parts.send(7, 7);
    parts.copy(7, 7);
    parts.send(1, 7);
    one.plan = std::move(parts.builder).finish();
    one.of[7].takes = 0;
    one.start();
    one.send(7, numbers(6, 700));
    for (int k = 0; k < 7 + vain; k++) one.execution.pass();
    EXPECT_EQ(one.of[7].consumed, 72) << "kept";
    one.of[7].takes = SIZE_MAX;
    one.run();
    EXPECT_EQ(one.of[1].sent, std::vector<std::size_t>{72}) << vain << " passes in vain";
  }
}

TEST(MessageExecution, SendsTheMessagesThatAreReadyTogether) {
  Member one(Kind::allgather, 0, 48, Algorithm::ring, 8);
  Parts parts;
  parts.copy(2, 2);
  for (int k = 0; k < 3; k++) parts.send(1, k);
  one.plan = std::move(parts.builder).finish();
  one.link.takes = 60;
  one.start();
  using Sizes = std::vector<std::size_t>;
  EXPECT_TRUE(one.execution.send());
  EXPECT_EQ(one.link.sent, (Sizes{48, 24, 24})) << "not what must be received first";
  EXPECT_EQ(one.execution.progress(), (Progress{0, 96}));
  EXPECT_TRUE(one.execution.send());
  EXPECT_EQ(one.link.sent, (Sizes{12, 24}));
  EXPECT_EQ(one.execution.progress(), (Progress{48, 96}));
  EXPECT_FALSE(one.execution.send());
  one.send(2, numbers(6, 200));
  one.run();
  EXPECT_EQ(one.link.sent, Sizes{24});
  EXPECT_TRUE(one.execution.done());
}

// The fold has several blocks, because elements of 16 bits are added in f32, block by block.
TEST(MessageExecution, FoldsMoreThanABlock) {
  constexpr std::size_t kHalves = MessageExecution::kMaxDataBytes / 2;
  Member one(Kind::allreduce, 0, 1, Algorithm::one_shot, 3);
  one.plan = plan_for(Kind::allreduce, 0, 3, kHalves);
  std::vector<std::uint16_t> halves(kHalves, 0x3c00);  // 1
  const Buffer buffer(reinterpret_cast<std::byte*>(halves.data()), kHalves);
  const Scaling by = scaling(DType::f16, 2, 1);
  ASSERT_TRUE(MessageExecution::suits(one.plan, arithmetic(DType::f16, Op::sum)));
  one.start(buffer, buffer, arithmetic(DType::f16, Op::sum), by);
  for (const int peer : {1, 2}) one.send(peer, Words(kHalves / 2, 0x3c003c00));
  one.run();
  EXPECT_TRUE(one.execution.done());
  EXPECT_EQ(halves, std::vector<std::uint16_t>(kHalves, 0x3e00)) << "1.5";
}

}  // namespace
}  // namespace anello::run
