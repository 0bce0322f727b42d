// Elastic jobs of real processes, which a test starts, kills, stops and continues. The result of each training must be
// that of an undisturbed one.
#pragma once
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "tests/rendezvous/trainee.hpp"
#include "tests/support/process.hpp"

namespace anello {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

inline constexpr std::size_t kWeights = 100;
inline constexpr int kLongTraining = 4000;  // 40 s until the job is disturbed, however busy the machine is

class ElasticJob : public ::testing::Test {
 protected:
  void serve(ElasticLimits limits) {
    ServerOptions options;
    options.elastic = limits;
    server_ = std::make_unique<RendezvousServer>(options);
    port_ = server_->port();
  }
  // Starts a process. Each step takes 10 ms until the world `fast_from` has begun, and then next to nothing.
  testing::Process& start(int steps, int fast_from, std::size_t weights = kWeights, std::size_t ballast = 0) {
    testing::Surroundings around{.environment = {text("ANELLO_RENDEZVOUS=127.0.0.1:", port_), "ANELLO_FLIGHT_DIR=none",
                                                 text("ANELLO_SILENCE_LIMIT=", silence_ms_)}};
    for (const std::string& one : further_environment_) around.environment.push_back(one);
    processes_.push_back(std::make_unique<testing::Process>(
        std::vector<std::string>{trainee_, std::to_string(steps), "10", std::to_string(fast_from),
                                 std::to_string(weights), std::to_string(ballast)},
        around));
    return *processes_.back();
  }
  void start_all(int count, int steps, int fast_from, std::size_t ballast = 0) {
    processes_.clear();
    for (int i = 0; i < count; i++) start(steps, fast_from, kWeights, ballast);
    for (auto& process : processes_) ASSERT_TRUE(process->says("world 1: "));
  }
  static std::string result(int steps) {
    return text("weights ", std::uint64_t(trainee::expected(kWeights, std::uint64_t(steps))), " at ", steps, "\n");
  }
  static void expect_result(testing::Process& process, int steps) {
    EXPECT_EQ(process.wait(), 0) << process.err();
    EXPECT_THAT(process.out(), HasSubstr(result(steps)));
  }
  static void kill(testing::Process& process) {
    process.signal(SIGKILL);
    EXPECT_EQ(process.wait(), 137);
  }

  // Kills the process that has this rank in the first world, and removes it from processes_.
  void kill_rank(int victim) {
    for (auto& process : processes_)
      if (process->out().find(text("rank ", victim, " of ")) != std::string::npos) {
        kill(*process);
        processes_.erase(processes_.begin() + (&process - processes_.data()));
        return;
      }
    FAIL() << "there is no rank " << victim;
  }

  std::string trainee_ = TRAINEE;
  std::vector<std::string> further_environment_;
  int silence_ms_ = 10000;
  std::uint16_t port_ = 0;  // port of the server at which processes join
  std::unique_ptr<RendezvousServer> server_;
  std::vector<std::unique_ptr<testing::Process>> processes_;
};

}  // namespace anello
