// How the driver sends the signature with the first data, and how it handles a signature that arrives in parts.
#include "ring/run/driver.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ring/algorithms/plans.hpp"
#include "tests/run/by_hand.hpp"
#include "tests/run/runs_link.hpp"
#include "tests/support/signatures.hpp"

namespace anello::run {
namespace {

// An allreduce of `count` words between rank 0, which is this rank, and rank 1. This rank's words are 1, 2, 3, ...;
// those of rank 1 are added to them.
struct OneShot {
  explicit OneShot(std::uint64_t count) : in(numbers(count, 1)), out(count, 0) {
    signature.algorithm = Algorithm::one_shot;
    signature.count = count;
    plan = algorithms::plan_of(signature, {.rank = 0, .world = 2, .count = count});
    execution.start(plan, arithmetic(DType::u32, Op::sum), whole(in), whole(out));
    driver.start(execution, signature, links);
  }
  void run() {
    while (driver.pass()) continue;
  }

  Signature signature = operation(3, 0);
  Words in, out;
  plan::Plan plan;
  RunsLink link;
  link::Link* const links[2] = {nullptr, &link};
  std::optional<Signature> theirs;  // rank 1's signature, if it differs
  Execution execution;
  Driver driver{[this](int, const Signature& other) {
    theirs = other;
    return Error(ErrorCode::mismatch, "signatures differ");
  }};
};

TEST(Driver, JoinsLittleDataWithTheSignatureIfTheLinkWantsThat) {
  using Sizes = std::vector<std::size_t>;
  const auto sent = [](std::uint64_t bytes, bool joins) {
    OneShot exchange(bytes / 4);
    exchange.link.joins = joins;
    exchange.driver.send();
    return exchange.link.sent;
  };
  EXPECT_EQ(sent(8192, true), Sizes{48 + 8192});
  EXPECT_EQ(sent(8196, true), (Sizes{48, 8196}));
  EXPECT_EQ(sent(4, false), (Sizes{48, 4}));
}

class SignatureInParts : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Cut, SignatureInParts, testing::Values(1, 8, 47, 48, 56));

TEST_P(SignatureInParts, IsCompared) {
  const auto run = [](OneShot& exchange, const Signature& theirs) {
    exchange.link.incoming = message(theirs, numbers(exchange.in.size(), 100));
    exchange.link.cut = GetParam();
    exchange.run();
  };
  OneShot equal(6);
  run(equal, equal.signature);
  EXPECT_TRUE(equal.execution.done());
  for (std::uint32_t k = 0; k < 6; k++) EXPECT_EQ(equal.out[k], 101 + 2 * k);

  Signature in_front = equal.signature, at_the_end = equal.signature;
  in_front.generation++;
  at_the_end.algorithm = Algorithm::ring;
  for (const Signature& theirs : {in_front, at_the_end}) {
    OneShot different(6);
    EXPECT_THROW(run(different, theirs), Error);
    EXPECT_EQ(different.theirs, theirs);
  }
}

}  // namespace
}  // namespace anello::run
