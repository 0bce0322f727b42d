// The part of its input that a rank keeps is copied after the first sends.
#include <gtest/gtest.h>

#include "ring/algorithms/plans.hpp"
#include "ring/run/driver.hpp"
#include "tests/run/by_hand.hpp"

namespace anello::run {
namespace {

// Accepts all bytes, and records how much of the tensor was written at the first send.
class Witness final : public link::Link {
 public:
  explicit Witness(const Words& output) : output_(output) {}
  std::size_t send_from(std::span<const ConstBytes> pieces) override {
    if (!asked) written = std::count_if(output_.begin(), output_.end(), [](std::uint32_t word) { return word != 0; });
    asked = true;
    std::size_t bytes = 0;
    for (const ConstBytes piece : pieces) bytes += piece.size();
    return bytes;
  }
  std::size_t recv_into(std::span<const Bytes> /*pieces*/) override { return 0; }
  bool has_arrived() override { return false; }
  bool want(link::Wanted /*wanted*/, link::Waiter& /*waiter*/) override { return true; }

  bool asked = false;
  std::ptrdiff_t written = 0;

 private:
  const Words& output_;
};

class OwnPart : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(All, OwnPart,
                         testing::Values(Kind::allgather, Kind::alltoall, Kind::broadcast, Kind::scatter));

TEST_P(OwnPart, IsCopiedAfterWhatIsSent) {
  constexpr std::uint64_t kCount = 1000;
  Signature signature;
  signature.kind = GetParam();
  const plan::Plan plan = algorithms::plan_of(signature, {.rank = 0, .world = 2, .count = kCount});
  Words in = numbers(plan.input_elems, 1), out(plan.output_elems, 0);
  Witness link(out);
  link::Link* const links[] = {nullptr, &link};
  Execution execution;
  execution.start(plan, kLopsided, whole(in), whole(out));
  Driver driver([](int, const Signature&) { return Error(ErrorCode::mismatch, "signatures differ"); });
  driver.start(execution, signature, links);
  driver.pass();
  EXPECT_TRUE(link.asked);
  EXPECT_EQ(link.written, 0);
  EXPECT_EQ(out[0], in[0]) << "the own part";
}

}  // namespace
}  // namespace anello::run
