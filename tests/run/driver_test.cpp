// How the driver sends the signature with the first data, and what it makes of one that comes in parts.
#include "ring/run/driver.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ring/algorithms/plans.hpp"
#include "tests/run/by_hand.hpp"
#include "tests/support/signatures.hpp"

namespace anello::run {
namespace {

// Takes everything and notes the sizes of the pieces. Shows `incoming` up to `cut`, and then the rest.
class RunsLink final : public link::Link {
 public:
  std::size_t send_from(std::span<const ConstBytes> pieces) override {
    sent.clear();
    for (const ConstBytes piece : pieces) sent.push_back(piece.size());
    return std::accumulate(sent.begin(), sent.end(), std::size_t(0));
  }
  std::size_t join_bytes() const override { return max_joined; }
  std::size_t recv_into(std::span<const Bytes> /*pieces*/) override { return 0; }
  bool peeks() const override { return true; }
  Bytes peek() override {
    const std::size_t end = consumed < cut ? cut : incoming.size();
    return std::as_writable_bytes(std::span(incoming)).first(end).subspan(consumed);
  }
  void consume(std::size_t bytes) override { consumed += bytes; }
  bool has_arrived() override { return false; }
  bool want(link::Wanted /*wanted*/, link::Waiter& /*waiter*/) override { return true; }

  std::size_t max_joined = SIZE_MAX;
  std::vector<std::size_t> sent;
  std::string incoming;  // elements behind the signature are aligned in it
  std::size_t cut = 0, consumed = 0;
};

// An allreduce of `count` words between ranks 0, this one, and 1, which are added to 1, 2, 3, ...
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
  std::optional<Signature> theirs;  // which differs
  Execution execution;
  Driver driver{[this](int, const Signature& other) {
    theirs = other;
    return Error(ErrorCode::mismatch, "signatures differ");
  }};
};

std::string encoded(const Signature& signature) {
  EncodedSignature bytes;
  encode(signature, bytes);
  return {bytes.data(), bytes.size()};
}

TEST(Driver, JoinsLittleDataWithTheSignatureIfTheLinkWantsThat) {
  using Sizes = std::vector<std::size_t>;
  const auto sent = [](std::uint64_t bytes, std::size_t max_joined = SIZE_MAX) {
    OneShot exchange(bytes / 4);
    exchange.link.max_joined = max_joined;
    exchange.driver.send();
    return exchange.link.sent;
  };
  EXPECT_EQ(sent(8192), Sizes{48 + 8192});
  EXPECT_EQ(sent(8196), (Sizes{48, 8196}));
  EXPECT_EQ(sent(72, 120), Sizes{120});
  EXPECT_EQ(sent(76, 120), (Sizes{48, 76}));
}

class SignatureInParts : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Cut, SignatureInParts, testing::Values(1, 8, 47, 48, 56));

TEST_P(SignatureInParts, IsCompared) {
  const auto run = [](OneShot& exchange, const Signature& theirs) {
    Words data = numbers(exchange.in.size(), 100);
    std::string message = encoded(theirs);
    message.append(reinterpret_cast<const char*>(data.data()), 4 * data.size());
    exchange.link.incoming = std::move(message);
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
