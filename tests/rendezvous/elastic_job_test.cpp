// Some processes of a job are killed, stopped or added while they train.
#include <random>
#include <thread>

#include "tests/rendezvous/elastic_jobs.hpp"

namespace anello {
namespace {

// Each of three processes sends a third of the state. One of them ends after it has begun to send. In the last round
// all processes except one end, one after the other.
TEST_F(ElasticJob, GoesOnWhenSourcesAreKilledWhileTheySend) {
  constexpr std::size_t kBallast = 48'000'000;
  for (int victims = 1; victims <= 2; victims++) {
    serve({.min = 1, .max = 4, .first = 3});
    start_all(3, 2000, 2, kBallast);
    start(2000, 2, kWeights, kBallast);
    for (int i = 0; i < victims; i++) {
      ASSERT_TRUE(processes_[std::size_t(i)]->says(text("saves ", 2 + i)));
      kill(*processes_[std::size_t(i)]);
    }
    for (int i = victims; i < 4; i++) expect_result(*processes_[std::size_t(i)], 2000);
  }
}

TEST_F(ElasticJob, GoesOnWithoutAStoppedRankWhichEndsWhenItContinues) {
  silence_ms_ = 3000;
  serve({.min = 1, .max = 4, .first = 3, .silence = milliseconds(silence_ms_)});
  start_all(3, kLongTraining, 2);
  processes_[1]->signal(SIGSTOP);
  for (const int i : {0, 2}) ASSERT_TRUE(processes_[std::size_t(i)]->says(" of 2 at "));
  processes_[1]->signal(SIGCONT);
  for (const int i : {0, 2}) expect_result(*processes_[std::size_t(i)], kLongTraining);
  EXPECT_EQ(processes_[1]->wait(), 1);
  EXPECT_THAT(processes_[1]->err(), HasSubstr("lost its place in the job: it was silent for 3 s"));
}

TEST_F(ElasticJob, WaitsForANewcomerBelowItsMinimum) {
  serve({.min = 2, .max = 2, .first = 2});
  start_all(2, kLongTraining, 2);
  kill(*processes_[0]);
  std::this_thread::sleep_for(milliseconds(300));
  testing::Process& other = start(kLongTraining, 2);
  expect_result(*processes_[1], kLongTraining);
  expect_result(other, kLongTraining);
  EXPECT_THAT(other.out(), HasSubstr("rank 1 of 2 at "));
}

TEST_F(ElasticJob, EndsWhenItIsTooLongBelowItsMinimum) {
  serve({.min = 2, .max = 2, .first = 2, .patience = milliseconds(500)});
  start_all(2, kLongTraining, 2);
  kill(*processes_[0]);
  EXPECT_EQ(processes_[1]->wait(), 1);
  EXPECT_THAT(processes_[1]->err(), HasSubstr("only 1 of at least 2 processes were there within 0.5 s"));
}

TEST_F(ElasticJob, ARunningWorldDoesNotNeedTheServer) {
  serve({.min = 1, .max = 4, .first = 3});
  start_all(3, 50, 2);
  server_.reset();
  for (auto& process : processes_) expect_result(*process, 50);
}

TEST_F(ElasticJob, WithoutTheServerALossIsAnErrorThatNamesIt) {
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, kLongTraining, 2);
  server_.reset();
  kill(*processes_[0]);
  EXPECT_EQ(processes_[1]->wait(), 1);
  EXPECT_THAT(processes_[1]->err(), HasSubstr("its connection with the rendezvous at 127.0.0.1:"));
}

TEST_F(ElasticJob, AProcessWithAnotherSettingEndsAlone) {
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, kLongTraining, 3);
  setenv("ANELLO_ALGORITHM", "ring", 1);
  testing::Process& odd = start(kLongTraining, 3);
  unsetenv("ANELLO_ALGORITHM");
  EXPECT_EQ(odd.wait(), 1);
  EXPECT_THAT(odd.err(), HasSubstr("ANELLO_ALGORITHM"));
  for (const int i : {0, 1}) expect_result(*processes_[std::size_t(i)], kLongTraining);
}

TEST_F(ElasticJob, AFixedProgramIsRefusedAndTheJobGoesOn) {
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, 100, 2);
  const testing::Outcome fixed = testing::run(
      {STARTER, "1"}, {.environment = {text("ANELLO_RENDEZVOUS=127.0.0.1:", server_->port()), "ANELLO_SIZE=2"}});
  EXPECT_NE(fixed.code, 0);
  EXPECT_THAT(fixed.err + fixed.out, HasSubstr("this server is for an elastic job"));
  for (auto& process : processes_) expect_result(*process, 100);
}

TEST_F(ElasticJob, AnElasticProgramIsRefusedByAFixedJobsServer) {
  server_ = std::make_unique<RendezvousServer>(ServerOptions());
  port_ = server_->port();
  testing::Process& process = start(10, 1);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("give --min-np to `anello run` or `anello rendezvous`"));
}

TEST_F(ElasticJob, RanksThatEndAtDifferentStepsFail) {
  serve({.min = 1, .max = 4, .first = 2});
  start(20, 1);
  start(30, 1);
  for (auto& process : processes_) {
    EXPECT_EQ(process->wait(), 1);
    EXPECT_THAT(process->err(), AllOf(HasSubstr("allreduce"), HasSubstr("barrier")));
  }
}

TEST_F(ElasticJob, SurvivesARowOfLossesAndNewcomers) {
  constexpr int kSteps = 300;
  serve({.min = 1, .max = 5, .first = 3});
  start_all(3, kSteps, 100);
  std::mt19937 random(17);
  for (int event = 0; event < 12; event++) {
    std::this_thread::sleep_for(milliseconds(random() % 150));
    if (processes_.size() > 2 && random() % 2 == 0) {
      const std::size_t victim = 1 + random() % (processes_.size() - 1);  // the first one keeps the state
      processes_[victim]->signal(SIGKILL);
      processes_[victim]->wait();
      processes_.erase(processes_.begin() + std::ptrdiff_t(victim));
    } else if (processes_.size() < 5) {
      start(kSteps, 100);
    }
  }
  for (auto& process : processes_) {
    EXPECT_EQ(process->wait(), 0) << process->err();
    EXPECT_THAT(process->out(),
                AnyOf(HasSubstr(result(kSteps)), HasSubstr("the others have finished\n")));  // or it came too late
  }
}

}  // namespace
}  // namespace anello
