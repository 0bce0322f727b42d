#include "ring/gradients/bucket_schedule.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <functional>

namespace anello::gradients {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Four gradients of 10 floats, two in each bucket: "d" and "c", "b" and "a".
class ScheduledGradients : public ::testing::Test {
 protected:
  BucketSchedule schedule(int passes = 1, std::uint64_t max_bytes = 80) {
    return {"test", std::vector<Gradient>{{"a", a_}, {"b", b_}, {"c", c_}, {"d", d_}}, passes, max_bytes};
  }
  std::vector<float> a_ = std::vector<float>(10), b_ = a_, c_ = a_, d_ = a_;
};

std::vector<std::size_t> all_ready(BucketSchedule& schedule) {
  std::vector<std::size_t> buckets;
  schedule.send_complete([&](std::size_t bucket) { buckets.push_back(bucket); });
  return buckets;
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST_F(ScheduledGradients, FollowTheListBackwards) {
  const BucketSchedule all = schedule();
  EXPECT_THAT(all.members(), ElementsAre(ElementsAre(3, 2), ElementsAre(1, 0)));
  EXPECT_EQ(all.buckets()[1].name, "bucket 2 of 2");
  EXPECT_EQ(all.buckets()[1].tensors[0].data, b_.data());
}

TEST_F(ScheduledGradients, PiecesAreViewsOfTheirGradient) {
  const BucketSchedule pieces = schedule(1, 24);
  EXPECT_EQ(pieces.pieces_of(3), 2u);
  EXPECT_EQ(pieces.buckets()[1].tensors[0].data, d_.data() + 6);
  EXPECT_EQ(pieces.buckets()[1].tensors[0].count, 4u);
  EXPECT_EQ(pieces.buckets()[1].tensors[1].data, c_.data());
}

TEST_F(ScheduledGradients, BucketsGoInTheirOrderWhateverIsReadyFirst) {
  BucketSchedule all = schedule();
  for (int step = 0; step < 2; step++) {
    all.begin();
    all.announce(0), all.announce(1);
    EXPECT_THAT(all_ready(all), IsEmpty()) << "the second bucket is complete, the first is not";
    all.announce(2);
    EXPECT_THAT(all_ready(all), IsEmpty());
    all.announce(3);
    EXPECT_THAT(all_ready(all), ElementsAre(0, 1));
    EXPECT_THAT(all.finish(), IsEmpty());
    EXPECT_EQ(all.omissions(), "");
    EXPECT_THAT(all_ready(all), IsEmpty()) << "each goes once in a step";
    EXPECT_THAT(all.completed(), ElementsAre(0, 1, 2, 3));
  }
}

TEST_F(ScheduledGradients, AreCompleteAfterAllPasses) {
  BucketSchedule all = schedule(2);
  all.begin();
  all.announce(3), all.announce(2), all.announce(3);
  EXPECT_THAT(all_ready(all), IsEmpty());
  all.announce(2);
  EXPECT_THAT(all_ready(all), ElementsAre(0));
  all.announce(1);
  EXPECT_THAT(all.finish(), ElementsAre(0)) << "one that was announced too rarely is not zero";
  EXPECT_EQ(all.omissions(),
            "test: ready() was not called in each of 2 passes for 'a', 'b'; call it before finish(), or set the option "
            "unannounced to zero");
  EXPECT_THAT(all_ready(all), ElementsAre(1));
}

TEST_F(ScheduledGradients, ThatWereNeverAnnouncedAreNamed) {
  BucketSchedule all = schedule();
  all.begin();
  all.announce(1);
  EXPECT_THAT(all.finish(), ElementsAre(0, 2, 3));
  EXPECT_EQ(all.omissions(),
            "test: ready() was not called for 'a', 'c', 'd'; call it before finish(), or set the option unannounced to "
            "zero");
  EXPECT_THAT(all_ready(all), ElementsAre(0, 1));
}

TEST_F(ScheduledGradients, ABucketThatCouldNotBeSentKeepsItsTurn) {
  BucketSchedule all = schedule();
  all.begin();
  all.announce(2), all.announce(3);
  EXPECT_THROW(all.send_complete([](std::size_t) { throw Error(ErrorCode::network, "broken"); }), Error);
  EXPECT_THAT(all_ready(all), ElementsAre(0));
}

TEST_F(ScheduledGradients, MayBeArrangedAnew) {
  BucketSchedule all = schedule();
  all.arrange(std::vector<std::uint32_t>{2, 0, 3, 1}, 40);
  EXPECT_THAT(all.members(), ElementsAre(ElementsAre(2), ElementsAre(0), ElementsAre(3), ElementsAre(1)));
  all.begin();
  all.announce(0), all.announce(2);
  EXPECT_THAT(all_ready(all), ElementsAre(0, 1));
}

TEST_F(ScheduledGradients, RefuseCallsOutOfOrder) {
  BucketSchedule all = schedule();
  EXPECT_EQ(refusal([&] { all.announce(0); }), "test: 'a' was announced outside a step; call begin() first");
  EXPECT_EQ(refusal([&] { all.finish(); }), "test: finish() was called outside a step; call begin() first");
  all.begin();
  EXPECT_EQ(refusal([&] { all.begin(); }), "test: begin() was called during a step; call finish() first");
  EXPECT_EQ(refusal([&] { all.announce(4); }), "test: there is no gradient 4; there are 4");
  all.announce(0);
  EXPECT_EQ(refusal([&] { all.announce(0); }), "test: 'a' was announced 2 times in a step of 1 pass");
  all.announce(1), all.announce(2), all.announce(3);
  EXPECT_THAT(all_ready(all), ElementsAre(0, 1)) << "what was refused has not counted";
}

TEST(SuitableBucketBytes, AreAnEighthWithinTheRange) {
  const auto of = [](std::uint64_t bytes) {
    return suitable_bucket_bytes(std::vector<Gradient>{{"a", Tensor(nullptr, bytes / 4, DType::f32)}}, {100, 1000});
  };
  EXPECT_EQ(of(80), 100u);
  EXPECT_EQ(of(4000), 500u);
  EXPECT_EQ(of(80000), 1000u);
}

}  // namespace
}  // namespace anello::gradients
