// Elastic jobs of programs in C++ and in C.
#include <thread>

#include "tests/rendezvous/elastic_jobs.hpp"

namespace anello {
namespace {

using ::testing::AllOf;

struct Interface {
  const char* name;
  const char* trainee;
  const char* differs;  // part of the error of a process whose state differs
  bool on_gpu = false;
};
void PrintTo(const Interface& its, std::ostream* out) {
  *out << its.name;
}

class ElasticJobIn : public ElasticJob, public ::testing::WithParamInterface<Interface> {
 protected:
  ElasticJobIn() { trainee_ = GetParam().trainee; }
};
INSTANTIATE_TEST_SUITE_P(
    Interfaces, ElasticJobIn,
    ::testing::Values(Interface{"Cpp", TRAINEE, "weights"},
                      Interface{"C", C_TRAINEE, "entry 0 of the state differs: weights 100 on rank 0, weights 101 on"}),
    [](const auto& its) { return std::string(its.param.name); });

TEST_P(ElasticJobIn, AnUndisturbedOneHasOneWorld) {
  serve({.min = 1, .max = 4, .first = 3});
  start_all(3, 30, 1);
  for (auto& process : processes_) {
    expect_result(*process, 30);
    EXPECT_THAT(process->out(), ::testing::Not(HasSubstr("world 2")));
  }
}

// Rank 0 too.
TEST_P(ElasticJobIn, GoesOnWhenAnyRankIsKilled) {
  for (int victim = 0; victim < 3; victim++) {
    serve({.min = 1, .max = 4, .first = 3});
    start_all(3, kLongTraining, 2);
    std::this_thread::sleep_for(milliseconds(50));
    kill_rank(victim);
    for (auto& process : processes_) {
      expect_result(*process, kLongTraining);
      EXPECT_THAT(process->out(), HasSubstr(" of 2 at "));
      if (process->out().find("world 2: rank 0") == std::string::npos) continue;
      EXPECT_THAT(process->err(), AllOf(HasSubstr("world 2 has 2 ranks and goes on after commit "),
                                        HasSubstr(text("left: rank ", victim, " ("))));
    }
  }
}

TEST_P(ElasticJobIn, TakesInAProcessThatComesLater) {
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, kLongTraining, 2);
  testing::Process& third = start(kLongTraining, 2);
  for (auto& process : processes_) expect_result(*process, kLongTraining);
  EXPECT_THAT(third.out(), HasSubstr("world 2: rank 2 of 3 at "));
  EXPECT_THAT(third.out(), HasSubstr(", 1 got 800 bytes"));
  EXPECT_THAT(
      processes_[0]->err() + processes_[1]->err(),
      AllOf(HasSubstr("; joined: "), HasSubstr("; rank 2 received 800 bytes, which ranks 0, 1 have too; paused for ")));
}

TEST_P(ElasticJobIn, AProcessWithAnotherStateEndsAlone) {
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, kLongTraining, 3);
  testing::Process& odd = start(kLongTraining, 3, kWeights + 1);
  EXPECT_EQ(odd.wait(), 1);
  EXPECT_THAT(odd.err(), HasSubstr(GetParam().differs));
  for (const int i : {0, 1}) expect_result(*processes_[std::size_t(i)], kLongTraining);
}

// The ranks compare their states after the commits 1, 2, 4, 8, ...
TEST_P(ElasticJobIn, AStateThatDiffersEndsTheJobAtTheNextComparison) {
  serve({.min = 1, .max = 2, .first = 2});
  start(kLongTraining, 1);
  further_environment_.push_back("TRAINEE_DIFFERS_AFTER=5");
  start(kLongTraining, 1);
  for (auto& process : processes_) {
    EXPECT_EQ(process->wait(), 1);
    EXPECT_THAT(process->err(), HasSubstr("entry 'weights' of the state differs at revision 8: rank 1 has hash "));
  }
}

// A process that has only waited for a place must not take its own state for the result.
TEST_P(ElasticJobIn, AProcessThatIsNotNeededEndsInGoodOrder) {
  serve({.min = 1, .max = 1, .first = 1});
  start_all(1, 30, 2);
  testing::Process& spare = start(30, 2);
  expect_result(*processes_[0], 30);
  EXPECT_EQ(spare.wait(), 0);
  EXPECT_EQ(spare.out(), "the others have finished\n");
  EXPECT_EQ(spare.err(), "");
  testing::Process& late = start(30, 2);
  EXPECT_EQ(late.wait(), 0);
  EXPECT_EQ(late.out(), "the others have finished\n");
}

}  // namespace
}  // namespace anello
