// Elastic jobs of programs in C.
#include <thread>

#include "tests/rendezvous/elastic_jobs.hpp"

namespace anello {
namespace {

class ElasticJobInC : public ElasticJob {
 protected:
  ElasticJobInC() { trainee_ = C_TRAINEE; }
};

TEST_F(ElasticJobInC, AnUndisturbedOneHasOneWorld) {
  serve({.min = 1, .max = 4, .first = 3});
  start_all(3, 30, 1);
  for (auto& process : processes_) {
    expect_result(*process, 30);
    EXPECT_THAT(process->out(), ::testing::Not(HasSubstr("world 2")));
  }
}

TEST_F(ElasticJobInC, GoesOnWithoutRank0) {
  serve({.min = 1, .max = 4, .first = 3});
  start_all(3, kLongTraining, 2);
  for (auto& process : processes_) {
    if (process->out().find("rank 0 of 3") == std::string::npos) continue;
    std::this_thread::sleep_for(milliseconds(50));
    kill(*process);
    process.reset();
    break;
  }
  for (auto& process : processes_)
    if (process) {
      expect_result(*process, kLongTraining);
      EXPECT_THAT(process->out(), HasSubstr(" of 2 at "));
    }
}

TEST_F(ElasticJobInC, TakesInAProcessThatComesLater) {
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, kLongTraining, 2);
  testing::Process& third = start(kLongTraining, 2);
  for (auto& process : processes_) expect_result(*process, kLongTraining);
  EXPECT_THAT(third.out(), HasSubstr("world 2: rank 2 of 3 at "));
  EXPECT_THAT(third.out(), HasSubstr(", 1 got 800 bytes"));
}

TEST_F(ElasticJobInC, AProcessWithAnotherManifestEndsAlone) {
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, kLongTraining, 3);
  testing::Process& odd = start(kLongTraining, 3, kWeights + 1);
  EXPECT_EQ(odd.wait(), 1);
  EXPECT_THAT(odd.err(), HasSubstr("entry 0 of the state differs: weights 100 on rank 0, weights 101 on rank 2"));
  for (const int i : {0, 1}) expect_result(*processes_[std::size_t(i)], kLongTraining);
}

TEST_F(ElasticJobInC, AProcessThatIsNotNeededEndsInGoodOrder) {
  serve({.min = 1, .max = 1, .first = 1});
  start_all(1, 30, 2);
  testing::Process& spare = start(30, 2);
  expect_result(*processes_[0], 30);
  EXPECT_EQ(spare.wait(), 0);
  EXPECT_EQ(spare.out(), "the others have finished\n");
}

}  // namespace
}  // namespace anello
