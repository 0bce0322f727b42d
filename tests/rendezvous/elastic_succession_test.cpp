// The server of an elastic job ends, and one of its processes goes on as the server.
#include <algorithm>
#include <thread>

#include "tests/rendezvous/elastic_jobs.hpp"
#include "tests/support/free_ports.hpp"

namespace anello {
namespace {

constexpr ElasticLimits kLimits{.min = 1, .max = 5, .first = 3, .may_be_succeeded = true};

class ElasticSuccession : public ElasticJob {
 protected:
  static bool was(const std::unique_ptr<testing::Process>& process, int rank, int size) {
    return process && process->out().find(text("rank ", rank, " of ", size, " at ")) != std::string::npos;
  }
  testing::Process& rank(int rank, int size) {
    return **std::ranges::find_if(processes_, [=](const auto& process) { return was(process, rank, size); });
  }
  void kill_rank(int rank, int size) {
    for (auto& process : processes_)
      if (was(process, rank, size)) {
        kill(*process);
        return process.reset();
      }
    FAIL() << "there is no rank " << rank;
  }
  void expect_results() {
    for (auto& process : processes_)
      if (process) expect_result(*process, kLongTraining);
  }
  std::string errors() const {
    std::string all;
    for (const auto& process : processes_) all += process ? process->err() : "";
    return all;
  }
};

// Also rank 0, which would have been the successor.
TEST_F(ElasticSuccession, TheOthersGoOnWhenTheServerAndARankEnd) {
  for (const int victim : {0, 1}) {
    serve(kLimits);
    start_all(3, kLongTraining, 2);
    server_.reset();
    kill_rank(victim, 3);
    expect_results();
    EXPECT_THAT(errors(), AllOf(HasSubstr("goes on as the rendezvous server of the job"),
                                HasSubstr(text("left: rank ", victim, " (127.0.0.1 pid "))));
  }
}

TEST_F(ElasticSuccession, ASuccessorIsSucceededUntilOneProcessIsLeft) {
  serve(kLimits);
  start_all(3, kLongTraining, 3);
  server_.reset();
  kill_rank(0, 3);
  for (auto& process : processes_) {
    if (!process) continue;
    ASSERT_TRUE(process->says("world 2: ")) << process->err();
  }
  kill_rank(0, 2);
  expect_results();
  EXPECT_THAT(errors(), HasSubstr("world 3 has 1 rank and goes on after commit "));
}

TEST_F(ElasticSuccession, ASignalOfASchedulerReachesTheSuccessor) {
  serve({.min = 1, .max = 5, .first = 4, .may_be_succeeded = true});
  start_all(4, kLongTraining, 4);
  server_.reset();
  testing::Process& early = rank(1, 4);
  early.signal(SIGUSR1);
  ASSERT_TRUE(early.says_error("asks this process to leave its job")) << early.err();
  kill_rank(3, 4);
  EXPECT_EQ(early.wait(), 0) << early.err();
  EXPECT_THAT(early.out(), AllOf(HasSubstr("world 2: "), HasSubstr("the others have finished")));
  for (auto& process : processes_) ASSERT_TRUE(!process || process.get() == &early || process->says("world 3: "));
  testing::Process& late = rank(1, 2);
  late.signal(SIGTERM);
  EXPECT_EQ(late.wait(), 0) << late.err();
  EXPECT_THAT(late.out(), HasSubstr("the others have finished"));
  for (auto& process : processes_)
    if (process && process.get() != &early && process.get() != &late) expect_result(*process, kLongTraining);
}

TEST_F(ElasticSuccession, NewcomersJoinAtTheAddressOfTheSuccessor) {
  serve(kLimits);
  start_all(3, kLongTraining, 3);
  server_.reset();
  kill_rank(2, 3);
  std::string words;
  for (auto& process : processes_) {
    if (!process) continue;
    ASSERT_TRUE(process->says("world 2: ")) << process->err();
    words += process->err();
  }
  const std::string key = "ANELLO_RENDEZVOUS=127.0.0.1:";
  const std::size_t at = words.find(key);
  ASSERT_NE(at, std::string::npos) << words;
  port_ = std::uint16_t(std::stoi(words.substr(at + key.size())));
  const testing::Process& newcomer = start(kLongTraining, 3);
  expect_results();
  EXPECT_THAT(newcomer.out(), HasSubstr("world 3: rank 2 of 3 at "));
}

// On one host the end of the others is certain, but not that they had gone on meanwhile.
TEST_F(ElasticSuccession, AStoppedRankDoesNotGoOnAfterTheOthersHaveFinished) {
  silence_ms_ = 3000;
  ElasticLimits limits = kLimits;
  limits.silence = milliseconds(silence_ms_);
  serve(limits);
  start_all(3, kLongTraining, 2);
  server_.reset();
  testing::Process& stopped = rank(2, 3);
  stopped.signal(SIGSTOP);
  for (auto& process : processes_)
    if (process.get() != &stopped) expect_result(*process, kLongTraining);
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.wait(), 1) << stopped.out();
  EXPECT_THAT(stopped.out(), ::testing::Not(HasSubstr("\nweights ")));
  EXPECT_THAT(stopped.err(), HasSubstr("more than half"));
}

// A range with one port for each rank was enough before there were heirs.
TEST_F(ElasticSuccession, ARangeWithOnePortForEachRankLeavesNoneForASuccessor) {
  const std::uint16_t first = consecutive_free_ports(3);
  further_environment_ = {text("ANELLO_PORT_RANGE=", first, "-", first + 2)};
  serve(kLimits);
  start_all(3, 50, 2);
  for (auto& process : processes_) expect_result(*process, 50);
  EXPECT_THAT(errors(), HasSubstr(text("ANELLO_PORT_RANGE='", first, "-", first + 2,
                                       "' has 3 ports for 3 ranks of this host; give it 6 or more")));
}

TEST_F(ElasticSuccession, AnUndisturbedJobEndsWithoutItsServer) {
  serve(kLimits);
  start_all(3, 50, 2);
  server_.reset();
  for (auto& process : processes_) {
    expect_result(*process, 50);
    EXPECT_THAT(process->out(), ::testing::Not(HasSubstr("world 2")));
  }
}

}  // namespace
}  // namespace anello
