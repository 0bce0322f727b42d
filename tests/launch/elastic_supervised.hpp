// A supervisor of an elastic job, with a membership that the test writes.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <set>

#include "rendezvous/launch/processes/elastic_supervisor.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

using std::chrono::milliseconds;

inline constexpr int kSuccess = 0, kStatus1 = 1 << 8, kStatus127 = 127 << 8;  // as waitpid has them

class ElasticSupervisorTest : public ::testing::Test {
 protected:
  // Makes places on two hosts. The first `first` places get a process at the beginning.
  void supervise(ElasticJob limits, int here = 4, int there = 0) {
    job_.command = {"train"};
    job_.size = here + there;
    job_.layout = {{"here", 0, here}};
    if (there > 0) job_.layout.push_back({"there", here, there});
    job_.elastic = limits;
    if (limits.max == 0) job_.elastic->max = job_.size;
    supervisor_ = std::make_unique<ElasticSupervisor>(job_, actions(), [this] { return seen(); });
    pass(0);
  }
  // The membership. Once the job has begun, every rank trains, except for ranks that fail before they train.
  MembershipView seen() const {
    MembershipView view = view_;
    for (auto& member : view.members)
      member.trained = view.begun && member.rank >= 0 && !fail_early_.contains(member.place);
    const bool has_seats = view.ranks.contains(view.generation);
    auto& seats = view.ranks[view.generation];
    for (const auto& member : view.members)
      if (member.rank >= 0 && !has_seats) {
        seats.resize(std::max(seats.size(), std::size_t(member.rank) + 1), {-1, -1});
        seats[std::size_t(member.rank)] = {member.place, member.id};
      }
    return view;
  }
  Supervisor::Actions actions() {
    return {.order =
                [this](const Order& order) {
                  const char* const names[] = {"start", "start rank", "kill rank", "signal", "kill"};
                  const bool one = order.kind == Order::Kind::start_rank || order.kind == Order::Kind::kill_rank;
                  orders_.push_back(text(names[int(order.kind)], " ", one ? order.rank : order.value));
                  if (order.kind == Order::Kind::start_rank && !awaited_)
                    supervisor_->reported({Report::Kind::started, order.rank, pid_of(order.rank)}, now_);
                },
            .abort = [](int, const std::string&) { return false; },
            .print = [this](const std::string& sentence) { printed_.push_back(sentence); },
            .retire = [this](int place) { orders_.push_back(text("retire ", place)); },
            .expect = [this](int newcomers) { newcomers_.push_back(newcomers); }};
  }
  static int pid_of(int place) { return 100 + place; }
  void pass(int time_ms) {
    for (const auto until = now_ + milliseconds(time_ms);; now_ = std::min(until, *supervisor_->next_tick())) {
      while (supervisor_->next_tick() && *supervisor_->next_tick() <= now_) supervisor_->tick(now_);
      if (now_ == until || !supervisor_->next_tick()) return void(now_ = until);
    }
  }
  void ends(int place, int status) {
    std::erase_if(view_.members, [&](const auto& member) { return member.place == place; });
    supervisor_->reported({Report::Kind::exited, place, pid_of(place), status}, now_);
  }
  void all_train(std::initializer_list<int> places) {
    view_.begun = true;
    view_.members.clear();
    for (const int place : places) view_.members.push_back({place, place});
    pass(100);
  }
  std::vector<std::string> orders_now() { return std::exchange(orders_, {}); }
  std::vector<std::string> printed_now() { return std::exchange(printed_, {}); }

  Job job_;
  MembershipView view_;
  Clock::time_point now_ = Clock::now();
  std::set<int> fail_early_;
  bool awaited_ = false;  // the agent that would start processes has not connected yet
  std::vector<std::string> orders_, printed_;
  std::vector<int> newcomers_;  // as they were reported
  std::unique_ptr<ElasticSupervisor> supervisor_;
};

}  // namespace anello::launch
