// The supervisor of an elastic job: it reports how many processes it has started that may still join.
#include "tests/launch/elastic_supervised.hpp"

namespace anello::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ElasticNewcomers : public ElasticSupervisorTest {
 protected:
  std::vector<int> newcomers_now() { return std::exchange(newcomers_, {}); }
};

TEST_F(ElasticNewcomers, AreThoseThatHaveNotJoined) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 4);
  EXPECT_THAT(newcomers_now(), ElementsAre(2));
  view_.members = {{0, -1, 7}};
  pass(100);
  EXPECT_THAT(newcomers_now(), ElementsAre(1));
  all_train({0, 1});
  EXPECT_THAT(newcomers_now(), ElementsAre(0));
  supervisor_->resize(4, now_);
  pass(1000);
  EXPECT_THAT(newcomers_now(), ElementsAre(2));
}

TEST_F(ElasticNewcomers, AreAwaitedAlsoWhileTheirHostIs) {
  supervise({.min = 1, .first = 1, .max_restarts = 9}, 1, 1);
  all_train({0});
  newcomers_now();
  awaited_ = true;
  supervisor_->resize(2, now_);
  pass(0);
  EXPECT_THAT(newcomers_now(), ElementsAre(1));
}

TEST_F(ElasticNewcomers, MayEndBeforeTheyJoin) {
  supervise({.min = 1, .first = 2, .max_restarts = 0}, 4);
  all_train({0, 1});
  supervisor_->resize(4, now_);
  pass(0);
  newcomers_now();
  ends(3, kStatus1);
  pass(0);
  EXPECT_THAT(newcomers_now(), ElementsAre(1));
  supervisor_->resize(2, now_);  // process 2 cannot be asked to leave, so it is killed
  pass(0);
  EXPECT_THAT(newcomers_now(), ElementsAre(0));
}

// Between two looks of the supervisor at the membership, the training begins and all its processes end.
TEST_F(ElasticNewcomers, AreNotAwaitedIfTheStateIsLost) {
  job_.discovery = "list";
  supervise({.min = 1, .first = 2, .max_restarts = 0, .patience = milliseconds(600'000)}, 2);
  view_.lost = true;
  for (const int place : {0, 1}) ends(place, kStatus1);
  pass(100);
  EXPECT_EQ(printed_.back(), "no process is left that had the state of the training");
  EXPECT_EQ(supervisor_->exit_code(), 1);
}

TEST_F(ElasticNewcomers, AreNotExpectedAnyMoreAfterAMinute) {
  supervise({.min = 1, .first = 2, .max_restarts = 9}, 3);
  all_train({0, 1});
  supervisor_->resize(3, now_);
  pass(0);
  newcomers_now();
  pass(59'000);
  EXPECT_THAT(newcomers_now(), IsEmpty());
  pass(1'000);
  EXPECT_THAT(newcomers_now(), ElementsAre(0));
}

}  // namespace
}  // namespace anello::launch
