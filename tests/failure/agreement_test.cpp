// Many councils must come to one verdict, whatever the order in which news travels.
#include "ring/failure/failure_detector.hpp"

#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "tests/support/agreement_worlds.hpp"
#include "tests/support/signatures.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

Verdict any_verdict(int by) {
  return {ErrorCode::aborted, by, text("rank ", by, " had enough")};
}

TEST(FailureAgreement, a_proposal_becomes_the_verdict_of_all) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int rank = any_rank(assembly);
    assembly[rank].propose(any_verdict(rank), assembly.now());
    assembly.deliver_all();
    EXPECT_EQ(common_verdict(assembly).culprit, rank);
  });
}

TEST(FailureAgreement, many_proposals_at_once_become_one_verdict) {
  in_many_worlds(2, [](Assembly& assembly) {
    for (int rank = 0; rank < assembly.size(); rank++) {
      if (assembly.random().percent(50)) assembly[rank].propose(any_verdict(rank), assembly.now());
      if (assembly.random().percent(30)) assembly.deliver_some();
    }
    assembly[assembly.size() - 1].propose(any_verdict(assembly.size() - 1), assembly.now());
    assembly.deliver_all();
    common_verdict(assembly);
  });
}

TEST(FailureAgreement, the_first_verdict_stays) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int last = assembly.size() - 1;
    assembly[last].propose(any_verdict(last), assembly.now());
    assembly.deliver_all();
    assembly[0].propose(any_verdict(0), assembly.now());
    assembly[last].lost(0, "gone", assembly.now());
    assembly.deliver_all();
    assembly.advance(milliseconds(1000));
    EXPECT_EQ(common_verdict(assembly).culprit, last);
    EXPECT_FALSE(assembly[0].due());
  });
}

// The survivors agree who died, also where a rank that is not the arbiter has proposed something at the same time.
TEST(FailureAgreement, a_death_is_found_and_named) {
  in_many_worlds(3, [](Assembly& assembly) {
    const int dead = any_rank(assembly);
    assembly.kill(dead);
    assembly.deliver_all();
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_dead);
    EXPECT_EQ(verdict.culprit, dead);
    EXPECT_THAT(verdict.message, HasSubstr(text("rank ", dead, " on host", dead, " died")));
  });
}

TEST(FailureAgreement, the_arbiter_dies_while_others_propose) {
  in_many_worlds(3, [](Assembly& assembly) {
    assembly.kill(0);
    for (int rank = 1; rank < assembly.size(); rank++) {
      if (assembly.random().percent(50)) assembly[rank].propose(any_verdict(rank), assembly.now());
      if (assembly.random().percent(30)) assembly.deliver_some();
    }
    assembly.advance(FailureAgreement::kArbiterLimit);
    common_verdict(assembly);
  });
}

TEST(FailureAgreement, without_the_arbiters_answer_all_decide_the_same_after_a_limit) {
  in_many_worlds(3, [](Assembly& assembly) {
    assembly.stop(0);
    for (int rank = 1; rank < assembly.size(); rank++)
      if (assembly.random().percent(50)) assembly[rank].propose(any_verdict(rank), assembly.now());
    assembly[1].propose(any_verdict(1), assembly.now());
    assembly.advance(FailureAgreement::kArbiterLimit - milliseconds(1));
    expect_no_verdict(assembly);
    assembly.advance(milliseconds(1));
    EXPECT_EQ(common_verdict(assembly).culprit, 1);
  });
}

// The proposer does not wait for the answer.
TEST(FailureAgreement, a_rank_that_ends_the_world_and_leaves_is_heard) {
  in_many_worlds(3, [](Assembly& assembly) {
    const int last = assembly.size() - 1;
    if (assembly.random().percent(50)) assembly.stop(0);
    assembly[last].propose(any_verdict(last), assembly.now());
    assembly[last].leave(0, 0);
    assembly.step();  // what it said is on its way
    assembly.stop(last);
    assembly.advance(FailureAgreement::kArbiterLimit);
    EXPECT_EQ(common_verdict(assembly).culprit, last);
  });
}

TEST(FailureAgreement, each_part_of_a_divided_world_comes_to_one_verdict) {
  in_many_worlds(4, [](Assembly& assembly) {
    const int half = assembly.size() / 2;
    for (int a = 0; a < half; a++)
      for (int b = half; b < assembly.size(); b++) {
        assembly.cut(a, b);
        assembly[a].lost(b, "cut off", assembly.now());
        assembly[b].lost(a, "cut off", assembly.now());
      }
    assembly.advance(FailureAgreement::kArbiterLimit);
    for (const auto& [first, last] : {std::pair(0, half), std::pair(half, assembly.size())})
      for (int rank = first; rank < last; rank++) {
        ASSERT_TRUE(assembly[rank].verdict()) << "rank " << rank;
        EXPECT_EQ(assembly[rank].verdict()->code, ErrorCode::rank_dead);
        EXPECT_EQ(assembly[rank].verdict()->culprit < half, rank >= half) << "one of the other part";
      }
  });
}

TEST(FailureAgreement, a_goodbye_is_no_death) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int gone = any_rank(assembly);
    assembly[gone].leave(0, 7);
    assembly.deliver_all();
    assembly.kill(gone);
    assembly.deliver_all();
    assembly.advance(milliseconds(1000));
    expect_no_verdict(assembly);
    for (const int rank : assembly.alive()) {
      EXPECT_TRUE(assembly[rank].has_left(gone));
      EXPECT_EQ(assembly[rank].ends_at(0), 7);
    }
  });
}

TEST(FailureAgreement, who_needs_a_rank_that_left_says_so) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int gone = any_rank(assembly), needy = (gone + 1) % assembly.size();
    assembly[gone].leave(0, 7);
    assembly.deliver_all();
    assembly[needy].needs(operation(6, 100), assembly.now());
    assembly.deliver_all();
    expect_no_verdict(assembly);
    assembly[needy].needs(operation(7, 100), assembly.now());
    assembly.stop(gone);
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::rank_left);
    EXPECT_EQ(verdict.culprit, gone);
    EXPECT_THAT(verdict.message, AllOf(HasSubstr(text("rank ", gone, " on host", gone, " left")),
                                       HasSubstr("after 7 operations"), HasSubstr("allreduce #7 (sum of 100 f32)")));
  });
}

TEST(FailureAgreement, a_suspicion_waits_for_what_the_control_plane_says) {
  Assembly assembly(4, 1);
  assembly[1].suspect(3, 0, "the connection was closed", assembly.now());
  assembly[2].propose(any_verdict(2), assembly.now());
  assembly.advance(FailureDetector::kSuspicionLimit);
  EXPECT_EQ(common_verdict(assembly).culprit, 2);
}

TEST(FailureAgreement, a_suspicion_that_nobody_explains_is_a_death) {
  Assembly assembly(4, 1);
  assembly[1].suspect(3, 0, "the connection was closed", assembly.now());
  assembly.advance(FailureDetector::kSuspicionLimit - milliseconds(1));
  expect_no_verdict(assembly);
  assembly.advance(milliseconds(1));
  const Verdict verdict = common_verdict(assembly);
  EXPECT_EQ(verdict.code, ErrorCode::rank_dead);
  EXPECT_EQ(verdict.culprit, 3);
}

// Data was expected of a rank that left in good order: it did something else.
TEST(FailureAgreement, a_suspect_that_has_left_is_named_as_such) {
  Assembly assembly(4, 1);
  assembly[1].suspect(3, 0, "the connection was closed", assembly.now());
  assembly[3].leave(0, 2);
  assembly.advance(FailureDetector::kSuspicionLimit);
  EXPECT_EQ(common_verdict(assembly).code, ErrorCode::rank_left);
}

TEST(FailureAgreement, ranks_that_wait_in_different_operations_are_a_mismatch) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int odd = any_rank(assembly);
    for (int rank = 0; rank < assembly.size(); rank++) {
      const Signature mine = operation(3, rank == odd ? 101 : 100);
      assembly.begin(rank, mine);
      assembly[rank].waiting(mine, assembly.now());
      if (assembly.random().percent(50)) assembly.deliver_some();
    }
    assembly.deliver_all();
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::mismatch);
    EXPECT_THAT(verdict.message, AllOf(HasSubstr(text("rank ", odd, " calls allreduce #3 (sum of 101 f32)")),
                                       HasSubstr("calls allreduce #3 (sum of 100 f32)")));
  });
}

TEST(FailureAgreement, ranks_that_wait_in_the_same_operation_are_none) {
  in_many_worlds(2, [](Assembly& assembly) {
    for (int rank = 0; rank < assembly.size(); rank++) {
      for (const std::uint64_t sequence : {3, 4}) {
        assembly.begin(rank, operation(sequence, 10 * sequence));
        if (sequence == 3 || rank != 0) assembly[rank].waiting(operation(sequence, 10 * sequence), assembly.now());
      }
      assembly.deliver_some();
    }
    assembly.advance(milliseconds(1000));
    expect_no_verdict(assembly);
  });
}

// It sent what it thought was wanted, and waits in the operation after that.
TEST(FailureAgreement, a_rank_that_is_ahead_through_something_else_is_found) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int odd = any_rank(assembly);
    for (int rank = 0; rank < assembly.size(); rank++) {
      assembly.begin(rank, operation(3, rank == odd ? 101 : 100));
      if (rank == odd) assembly.begin(rank, operation(4, 7));
      assembly[rank].waiting(rank == odd ? operation(4, 7) : operation(3, 100), assembly.now());
    }
    assembly.deliver_all();
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::mismatch);
    EXPECT_THAT(verdict.message, HasSubstr(text("rank ", odd, " calls allreduce #3 (sum of 101 f32)")));
  });
}

TEST(FailureAgreement, a_rank_that_left_through_something_else_is_found) {
  in_many_worlds(2, [](Assembly& assembly) {
    const int odd = any_rank(assembly), other = (odd + 1) % assembly.size();
    assembly.begin(odd, operation(3, 101));
    assembly.begin(other, operation(3, 100));
    assembly[odd].leave(0, 4);
    if (assembly.random().percent(50)) assembly.deliver_all();
    assembly[other].waiting(operation(3, 100), assembly.now());
    assembly.step();
    assembly.deliver_all();
    assembly.stop(odd);
    assembly.advance(FailureAgreement::kArbiterLimit);
    const Verdict verdict = common_verdict(assembly);
    EXPECT_EQ(verdict.code, ErrorCode::mismatch);
    EXPECT_THAT(verdict.message, HasSubstr(text("rank ", odd, " calls allreduce #3 (sum of 101 f32)")));
  });
}

TEST(FailureAgreement, a_long_reason_is_cut_for_all_alike) {
  Assembly assembly(3, 1);
  assembly[0].propose({ErrorCode::aborted, 0, std::string(10000, 'x')}, assembly.now());
  assembly.deliver_all();
  EXPECT_LE(common_verdict(assembly).message.size(), ControlMessage::kMaxMessageBytes);
}

// Frames arrive over many ways; 64 of one rank may be on their way at once.
TEST(FailureAgreement, what_was_seen_is_passed_on_once) {
  Assembly assembly(2, 1);
  std::vector<std::string> frames;
  for (std::uint64_t k = 0; k < 64; k++) {
    assembly[0].waiting(operation(k, 1), assembly.now());
    frames.push_back(assembly[0].take_outbox().at(0));
  }
  FailureDetector listener(1, Assembly::host_names(2), [](std::uint64_t, std::uint64_t) { return std::nullopt; });
  const auto passes_on = [&](const std::string& frame) {
    listener.receive(frame, assembly.now());
    return listener.take_outbox().size();
  };
  std::swap(frames.front(), frames.back());  // the newest first, the oldest last
  for (const std::string& frame : frames) EXPECT_EQ(passes_on(frame), 1);
  for (const std::string& frame : frames) EXPECT_EQ(passes_on(frame), 0);
  assembly[0].waiting(operation(64, 1), assembly.now());
  EXPECT_EQ(passes_on(assembly[0].take_outbox().at(0)), 1);
  EXPECT_EQ(passes_on(frames.back()), 0) << "older than the window";
}

// A frame of each type, as a rank sends it.
std::vector<std::string> sample_frames() {
  Assembly assembly(4, 1);
  assembly.begin(2, operation(0, 5));
  assembly[2].waiting(operation(0, 5), assembly.now());
  assembly[2].stalled(operation(0, 5), assembly.now());
  assembly[2].slow({.rank = 3, .own = milliseconds(900), .theirs = milliseconds(20), .period = milliseconds(1000)},
                   assembly.now());
  assembly[2].leave(0, 1);
  assembly[2].propose(any_verdict(2), assembly.now());
  std::vector<std::string> frames = assembly[2].take_outbox();
  assembly[0].propose(any_verdict(0), assembly.now());
  for (std::string& frame : assembly[0].take_outbox()) frames.push_back(std::move(frame));
  EXPECT_EQ(frames.size(), 7);
  return frames;
}

// What is no frame is an error, is believed in no part and is not passed on. Whatever is accepted is harmless.
void expect_bounded(const std::string& bytes) {
  FailureDetector listener(1, Assembly::host_names(4), [](std::uint64_t, std::uint64_t) { return std::nullopt; });
  try {
    listener.receive(bytes, milliseconds(0));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::protocol) << e.what();
    EXPECT_FALSE(listener.verdict());
    EXPECT_FALSE(listener.due());
    EXPECT_TRUE(listener.take_outbox().empty()) << "passed on: " << e.what();
    return;
  }
  if (listener.verdict()) {
    EXPECT_NE(name(listener.verdict()->code), "?");
    EXPECT_GE(listener.verdict()->culprit, -1);
    EXPECT_LT(listener.verdict()->culprit, 4);
  }
}

TEST(FailureAgreement, frames_that_are_cut_short_or_too_long_are_refused) {
  FailureDetector listener(1, Assembly::host_names(4), [](std::uint64_t, std::uint64_t) { return std::nullopt; });
  for (const std::string& frame : sample_frames()) {
    for (std::size_t length = 0; length < frame.size(); length++) expect_bounded(frame.substr(0, length));
    expect_bounded(frame + "x");
    EXPECT_THROW(listener.receive(frame + "x", milliseconds(0)), Error);
    EXPECT_THROW(listener.receive(frame.substr(0, frame.size() - 1), milliseconds(0)), Error);
    EXPECT_NO_THROW(listener.receive(frame, milliseconds(0)));
  }
}

TEST(FailureAgreement, any_flipped_bit_and_any_garbage_is_harmless) {
  for (const std::string& frame : sample_frames())
    for (std::size_t bit = 0; bit < 8 * frame.size(); bit++) {
      std::string flipped = frame;
      flipped[bit / 8] = char(flipped[bit / 8] ^ (1 << bit % 8));
      expect_bounded(flipped);
    }
  Random random(1);
  for (int k = 0; k < 3000; k++) {
    std::string noise(random.below(100), '\0');
    for (char& c : noise) c = char(random.next());
    if (noise.size() > 9 && random.percent(50))
      noise.replace(0, 9, std::string("\1\0\0\0\7\0\0\0", 8) + char(random.below(9)));
    expect_bounded(noise);
  }
}

}  // namespace
}  // namespace anello
