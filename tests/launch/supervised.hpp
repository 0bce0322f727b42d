// A supervisor of three ranks, two on this host and one on another, which records its orders, messages and aborts.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "rendezvous/launch/processes/fixed_supervisor.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

inline constexpr int kExit0 = 0, kExit3 = 3 << 8;  // as waitpid has them

class SupervisorTest : public ::testing::Test {
 protected:
  SupervisorTest() {
    for (int rank = 0; rank < 3; rank++) supervisor_.reported({Report::Kind::started, rank, 100 + rank}, now_);
  }
  void ends(int rank, int status) { supervisor_.reported({Report::Kind::exited, rank, 100 + rank, status}, now_); }
  void pass(int time_ms) {
    now_ += milliseconds(time_ms);
    while (supervisor_.next_tick() && *supervisor_.next_tick() <= now_) supervisor_.tick(now_);
  }

  Job job_{.command = {"train"}, .size = 3, .layout = {{"here", 0, 2}, {"there", 2, 1}}};
  std::vector<std::string> orders_, printed_, aborts_;
  bool world_ = false;
  std::uint64_t kills_ = 7;
  std::uint32_t newest_world_ = 1;
  Clock::time_point now_ = Clock::now();
  Supervisor::Actions actions() {
    return {.order =
                [this](const Order& order) {
                  orders_.push_back(order.kind == Order::Kind::kill ? "kill" : text("signal ", order.value));
                },
            .abort =
                [this](int culprit, const std::string& reason) {
                  aborts_.push_back(text(culprit, ": ", reason));
                  return world_;
                },
            .print = [this](const std::string& sentence) { printed_.push_back(sentence); },
            .newest_world = [this] { return newest_world_; },
            .out_of_memory_kills = [this] { return kills_; }};
  }
  FixedSupervisor supervisor_{job_, actions()};
};

}  // namespace anello::launch
