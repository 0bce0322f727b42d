// An elastic job without a launcher. Its rendezvous server is killed, and later the processes that have gone on as the
// server; other processes are killed, stopped for a while, added and asked to leave at random. If the processes run on
// several hosts, cables are also unplugged.
#pragma once
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ring/base/text.hpp"
#include "tests/launch/launched.hpp"
#include "tests/launch/seeds.hpp"

namespace anello::launch {

class FailoverJob {
 public:
  struct Member {
    std::unique_ptr<Process> process;
    int host = 0;
    bool killed = false, leaves = false;  // asked to leave
    bool paused = false;                  // stopped for so long that the others may have given it up
    int served = 0;                       // how often it has gone on as the server
    int code = -1;                        // -1: it runs
    bool was_not_needed() const { return code == 0 && contains(process->out(), "the others have finished"); }
  };
  // The hosts on which a job runs. `serve` starts `anello rendezvous --successor` on host 0; `join` starts a process
  // with `address`, which is "ANELLO_RENDEZVOUS=...", in its environment.
  struct Site {
    std::function<std::unique_ptr<Process>()> serve;
    std::function<std::unique_ptr<Process>(int host, const std::string& address)> join;
    std::function<bool(const std::vector<Member>&)> begins;  // waits until the first world trains
    int hosts = 1;
    std::function<void(int host, bool in)> plug = {};  // plugs a host's cable in or out; if there are several hosts
  };

  // `least`: if there are no more ranks than this, the only event is a new process, or, without a server, a kill.
  FailoverJob(unsigned seed, int first, int least, int max, Site site)
      : seed_(seed),
        first_(first),
        least_(least),
        max_(max),
        site_(std::move(site)),
        random_(seed),
        server_(site_.serve()) {
    if (!server_->says("\n")) return;
    address_ = server_->out().substr(0, server_->out().find('\n'));
    for (int i = 0; i < first; i++) join();
  }

  bool begins() { return site_.begins(members_); }
  // Lets events happen until there have been `events`, or the training has ended. Returns what was wrong.
  std::string disturb(int events) {
    newest_event_ = Clock::now();
    while (events_ < events) {
      std::this_thread::sleep_for(milliseconds(20 + int(random_() % 150)));
      look();
      if (living().empty() || has_finished()) return "";
      if (Clock::now() - newest_event_ > testing::kLong) return "nothing goes on";
      happen();
    }
    return "";
  }
  // Waits until all processes have ended. `finished` looks at the output of each process that has ended with the
  // training. Returns what was wrong.
  std::string end(const std::function<std::string(const Process&)>& finished = [](const Process&) { return ""; }) {
    if (!server_killed_ && server_code_ >= 0) return text("the server ended with ", server_code_);
    std::size_t results = 0;
    for (Member& one : members_) {
      one.code = one.process->wait();
      if (const std::string wrong = what_is_wrong(one); !wrong.empty())
        return text("process ", one.process->pid(), " ", wrong);
      if (one.code != 0 || one.was_not_needed()) continue;
      if (const std::string wrong = finished(*one.process); !wrong.empty()) return wrong;
      results++;
    }
    server_->signal(SIGKILL);
    server_->wait();
    if (const int number = reported_twice(); number > 0) return text("there were two worlds ", number);
    return results > 0 ? "" : "no process has a result";
  }

  int events() const { return events_; }
  int servers_killed() const { return servers_killed_; }
  std::string story() const {
    std::string all = text("seed ", seed_, ":\n", log_);
    for (const Member& one : members_)
      all += text("process ", one.process->pid(), ":\n", one.process->out(), one.process->err());
    return all;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // A process that was killed ends so. One that the others may have given up may end with the reason. Only processes
  // that were asked to leave, or have never been in a world, may be sent away because they are not needed.
  static std::string what_is_wrong(const Member& one) {
    constexpr const char* kReasons[] = {"has lost its place", "the others have gone on", "more than half",
                                        "no process can go on", "the connection with the rendezvous has ended"};
    const auto says = [&](const char* reason) { return contains(one.process->err(), reason); };
    if (one.code == 128 + SIGKILL && one.killed) return "";
    if (one.code == 1 && one.paused && std::ranges::any_of(kReasons, says)) return "";
    if (one.code != 0) return text("ended with ", one.code);
    const bool was_rank = contains(one.process->out(), "world ");
    return one.was_not_needed() && was_rank && !one.leaves && !one.paused ? "was sent away" : "";
  }

  // A world, as its rank 0 reports it when all ranks have the state.
  struct World {
    int number = 1, size = 0;
    bool operator==(const World&) const = default;
  };
  std::vector<World> worlds() const {
    std::vector<World> all{{1, first_}};
    for (const Member& one : members_)
      for (const std::string& line : testing::lines(one.process->err())) {
        World world;
        const std::size_t at = line.find("world ");
        if (at != std::string::npos &&
            std::sscanf(line.c_str() + at, "world %d has %d rank", &world.number, &world.size) == 2)
          all.push_back(world);
      }
    std::ranges::sort(all, {}, &World::number);
    return all;
  }
  // Returns the number of two worlds that have gone on side by side; 0: there were none.
  int reported_twice() const {
    const std::vector<World> all = worlds();
    const auto twice = std::ranges::adjacent_find(all, {}, &World::number);
    return twice == all.end() ? 0 : twice->number;
  }
  std::vector<Member*> living() {
    std::vector<Member*> all;
    for (Member& one : members_)
      if (!one.leaves && !one.killed && one.code < 0) all.push_back(&one);
    return all;
  }
  bool has_finished() const {
    const auto has = [](const Member& one) { return !one.leaves && one.code == 0 && !one.was_not_needed(); };
    return std::ranges::any_of(members_, has);
  }
  // Finds out which process is the server, and its address.
  void look() {
    constexpr const char* kServes = "goes on as the rendezvous server of the job";
    constexpr milliseconds kLook{1};
    server_code_ = server_->wait(kLook);
    for (Member& one : members_) {
      if (one.code < 0) one.code = one.process->wait(kLook);
      const std::string& err = one.process->err();
      const int served = int(count(err, kServes));
      if (std::exchange(one.served, served) == served || one.code >= 0) continue;
      successor_ = one.process->pid();
      const std::size_t at = err.rfind("ANELLO_RENDEZVOUS=");
      address_ = err.substr(at, err.find('\n', at) - at);
    }
  }

  // An event happens only when all living processes are ranks of the newest world, and have its state. A process that
  // was asked to leave may still be among these ranks.
  void happen() {
    const World newest = worlds().back();
    std::vector<Member*> all = living();
    const auto leaves = std::ranges::count_if(members_, [](const Member& one) { return one.leaves && one.code < 0; });
    const bool same = newest == std::exchange(last_, newest);
    if (!same || int(all.size()) > newest.size || int(all.size() + std::size_t(leaves)) < newest.size) return;
    last_ = {};
    std::ranges::shuffle(all, random_);
    Member& one = *all.front();
    const bool few = int(all.size()) <= least_, served = is_served();
    const unsigned event = random_() % 14;
    if (served && (few || (event < 3 && int(all.size()) < max_))) return add();
    if (all.size() == 1) return;  // the only process left goes on as the server
    if (few) return kill(one);    // then another process goes on as the server, and others can join
    if (event < 7) return kill_server(one);
    if (event < 10) return kill(one);
    if (event < 12) return site_.hosts > 1 && served && event % 2 ? cut() : pause(one);
    ask_to_leave(one);
  }
  Member* successor() {
    const auto found =
        std::ranges::find_if(members_, [&](const Member& one) { return one.process->pid() == successor_; });
    return found == members_.end() ? nullptr : &*found;
  }
  bool is_served() {
    const Member* const one = successor();
    return one ? one->code < 0 && !one->killed && !one->leaves : server_code_ < 0;
  }

  void add() {
    join();
    note(text("added ", members_.back().process->pid()));
  }
  void join() {
    const int host = int(members_.size()) % site_.hosts;
    members_.push_back({.process = site_.join(host, address_), .host = host});
  }
  void kill(Member& one) {
    note(text("SIGKILL to ", one.process->pid()));
    one.killed = true;
    one.process->signal(SIGKILL);
  }
  // A rank goes on as the server only when a next world is due. So a rank must be lost too: here, or by a later event.
  void kill_server(Member& other) {
    if (!is_served()) return kill(other);
    servers_killed_++;
    if (Member* const one = successor()) return kill(*one);
    note("SIGKILL to the server");
    server_->signal(SIGKILL);
    server_killed_ = true;
    server_code_ = server_->wait();
    if (random_() % 2) kill(other);
  }
  void ask_to_leave(Member& one) {
    note(text("SIGTERM to ", one.process->pid()));
    one.leaves = true;
    one.process->signal(SIGTERM);
  }
  void pause(Member& one) {
    const milliseconds length(random_() % 2 ? 50 + random_() % 1000 : 1000 + random_() % 4000);
    note(text("SIGSTOP for ", length.count(), " ms to ", one.process->pid()));
    one.paused = one.paused || length > kSilenceLimit / 2;
    one.process->signal(SIGSTOP);
    std::this_thread::sleep_for(length);
    one.process->signal(SIGCONT);
  }
  // Cuts off a host, but not the server's host: processes that cannot reach the server end at the next loss of a rank.
  void cut() {
    const int server = successor() ? successor()->host : 0;
    const int host = (server + 1 + int(random_() % unsigned(site_.hosts - 1))) % site_.hosts;
    const milliseconds length(200 + random_() % 5000);
    site_.plug(host, false);
    std::this_thread::sleep_for(length);
    site_.plug(host, true);
    // For this time, the other processes may still have to find out who is left.
    std::this_thread::sleep_for(2 * kSilenceLimit + std::chrono::seconds(1));
    for (Member& one : members_) one.paused |= one.host == host && length > kSilenceLimit / 2;
    note(text("host ", host, " was cut off for ", length.count(), " ms"));
  }
  void note(const std::string& event) {
    log_ += event + "\n";
    newest_event_ = Clock::now();
    events_++;
  }

  const unsigned seed_;
  const int first_, least_, max_;
  const Site site_;
  std::mt19937 random_;
  std::unique_ptr<Process> server_;
  std::vector<Member> members_;
  pid_t successor_ = 0;  // the process that is the server; 0: the first server, which may be dead
  std::string address_, log_;
  World last_;
  int server_code_ = -1;  // of the first server; -1: it runs
  bool server_killed_ = false;
  Clock::time_point newest_event_;
  int events_ = 0, servers_killed_ = 0;
};

}  // namespace anello::launch
