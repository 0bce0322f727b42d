#include "tests/faults/trial.hpp"

#include <signal.h>

#include <algorithm>
#include <array>
#include <deque>
#include <sstream>
#include <thread>

#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "ring/failure/control_graph.hpp"
#include "tests/support/process.hpp"
#include "tests/support/random.hpp"
#include "tests/support/starvation.hpp"

namespace anello::faults {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using testing::Process;

constexpr milliseconds kLong{20000};

// A rank's last line of output.
struct RankEnd {
  std::string what;  // first word of the rank's last line (victim.cpp); empty: no line
  steady_clock::time_point at;
  std::string code, message;
  int culprit = -1;
  std::uint64_t operations = 0;
};

RankEnd end_of_rank(const std::string& said) {
  RankEnd end;
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) {
    if (line == "ready" || line == "remaining") continue;
    std::istringstream words(line);
    std::int64_t at = 0;
    words >> end.what >> end.operations >> at >> end.code >> end.culprit;
    std::getline(words, end.message);
    end.at = steady_clock::time_point(nanoseconds(at));
  }
  return end;
}

milliseconds left(steady_clock::time_point deadline) {
  return std::max(milliseconds(0), std::chrono::ceil<milliseconds>(deadline - steady_clock::now()));
}

class TriedWorld {
 public:
  TriedWorld(const Trial& trial, const std::string& program)
      : trial_(trial), program_(program), server_(ServerOptions{.size = trial.ranks}) {}

  Result play() {
    start();
    std::this_thread::sleep_for(trial_.delay);
    const auto at = steady_clock::now();
    strike();
    const bool all_told = harmless() ? end_in_good_order() : survivors_end(limit());
    Result result = judge(at);
    if (!all_told) result.wrong = text("not all had ended in time; ", result.wrong);
    if (trial_.fault == Fault::stop && result.wrong.empty()) result.wrong = wake();
    return result;
  }

 private:
  bool harmless() const { return trial_.fault != Fault::kill && trial_.fault != Fault::stop; }
  bool spared(int rank) const { return rank != trial_.victim || harmless(); }
  bool leaves(int rank) const { return std::ranges::find(trial_.leaving, rank) != trial_.leaving.end(); }
  // The time within which the error must come: kSoon after a death, and kSoon beyond the limit after silence. A rank
  // that is not connected yet with any remaining rank is found by a ping, after half of the limit.
  milliseconds promised() const {
    const milliseconds silence = trial_.fault == Fault::stop ? trial_.silence_limit : milliseconds(0);
    const milliseconds ping = trial_.moment == Moment::departing ? trial_.silence_limit / 2 : milliseconds(0);
    return silence + ping + kSoon;
  }
  milliseconds limit() const { return promised() + kLong; }

  void start_rank(int rank) {
    const std::string habit = trial_.moment == Moment::start ? "small" : std::string(name(trial_.moment));
    const std::vector<std::string> environment{
        text("ANELLO_RANK=", rank),
        text("ANELLO_SIZE=", trial_.ranks),
        text("ANELLO_RENDEZVOUS=127.0.0.1:", server_->port()),
        text("ANELLO_TRANSPORT=", trial_.transport),
        text("ANELLO_SILENCE_LIMIT=", trial_.silence_limit.count()),
        text("ANELLO_LOG=", trial_.moment == Moment::unread ? "debug" : "warning"),
        "ANELLO_FLIGHT_DIR=none"};
    std::vector<std::string> command{program_, habit};
    for (const int each : trial_.leaving) command.push_back(text(each));
    ranks_.emplace_back(command, testing::Surroundings{.environment = environment});
  }

  Process& process(int rank) { return ranks_[std::size_t(rank)]; }
  bool early() const { return trial_.moment == Moment::start || trial_.moment == Moment::ending; }

  void start() {
    for (int rank = 0; rank < trial_.ranks; rank++) start_rank(rank);
    if (early()) return await_joining();
    const auto deadline = steady_clock::now() + kLong;
    for (Process& rank : ranks_) rank.says("ready\n", left(deadline));
  }

  // Waits until the server has seen all ranks, because it can report only the loss of a rank that it has seen.
  void await_joining() const {
    const auto deadline = steady_clock::now() + kLong;
    const auto all_joined = [](const ServerStats& stats) { return stats.starting || stats.worlds_formed > 0; };
    while (!all_joined(server_->stats()) && steady_clock::now() < deadline) std::this_thread::yield();
  }

  void strike() {
    std::vector<std::string> processes{"self"};
    for (const Process& rank : ranks_) processes.push_back(text(rank.pid()));
    starvation_.emplace(processes);
    if (trial_.fault == Fault::server) server_.reset();
    if (trial_.fault == Fault::kill) process(trial_.victim).signal(SIGKILL);
    if (trial_.fault == Fault::stop || trial_.fault == Fault::pause) process(trial_.victim).signal(SIGSTOP);
    if (trial_.fault == Fault::pause) {
      std::this_thread::sleep_for(trial_.silence_limit / 2);
      process(trial_.victim).signal(SIGCONT);
    }
  }

  bool survivors_end(milliseconds limit) {
    const auto deadline = steady_clock::now() + limit;
    for (int rank = 0; rank < trial_.ranks; rank++)
      if (spared(rank) && process(rank).wait(left(deadline)) < 0) return false;
    return true;
  }

  bool end_in_good_order() {
    std::this_thread::sleep_for(trial_.delay);
    int first = 0;  // the first of the remaining ranks
    while (leaves(first)) first++;
    process(first).close_input();
    return survivors_end(kLong);
  }

  Result judge(steady_clock::time_point at) {
    Result result;
    for (int rank = 0; rank < trial_.ranks; rank++) {
      if (!spared(rank)) continue;
      const bool may_be_done = harmless() || trial_.moment == Moment::ending || leaves(rank);
      const RankEnd end = end_of_rank(ranks_[std::size_t(rank)].out());
      const bool done = end.what == "done", told = end.what == "told";
      if (!(told && !harmless()) && !(done && may_be_done))
        result.wrong = text("rank ", rank, " said '", ranks_[std::size_t(rank)].out(), "'");
      result.operations += end.operations;
      if (!told) continue;
      result.told = true;
      if (const std::string lie = untrue(end); !lie.empty()) result.wrong = text("rank ", rank, ": ", lie);
      const auto after = std::chrono::ceil<milliseconds>(end.at - at);
      result.latest = std::max(result.latest.value_or(after), after);
    }
    const milliseconds wait = starvation_ ? starvation_->longest() : milliseconds(0);
    const milliseconds late = trial_.fault == Fault::stop ? lateness(wait, trial_.silence_limit) : lateness(wait);
    if (result.latest && *result.latest > promised() + late)
      result.wrong = text("the last was told after ", result.latest->count(), " ms; the longest wait for a core was ",
                          wait.count(), " ms");
    return result;
  }

  // Before the world has formed, only the server sees a death, as a connection that ends. So other codes are right too.
  std::string untrue(const RankEnd& end) const {
    const std::string expected = trial_.fault == Fault::kill ? "rank_dead" : "rank_silent";
    if (end.code == expected && end.culprit == trial_.victim) return {};
    if (early() && trial_.fault == Fault::kill && (end.code == "rendezvous" || end.code == "network")) return {};
    return text("was told ", end.code, " of rank ", end.culprit, ":", end.message);
  }

  // A stopped rank receives the error too.
  std::string wake() {
    process(trial_.victim).signal(SIGCONT);
    process(trial_.victim).wait(kLong);
    const std::string& said = process(trial_.victim).out();
    const RankEnd end = end_of_rank(said);
    if (end.what == "told" || (end.what == "done" && trial_.moment == Moment::ending)) return {};
    return text("the stopped rank, once continued, said '", said, "'");
  }

  const Trial& trial_;
  std::string program_;
  std::optional<RendezvousServer> server_;
  std::deque<Process> ranks_;
  std::optional<Starvation> starvation_;  // since the fault
};

}  // namespace

std::string_view name(Fault fault) {
  constexpr std::array<std::string_view, 5> kNames{"none", "server", "kill", "stop", "pause"};
  return kNames[std::size_t(fault)];
}
std::string_view name(Moment moment) {
  constexpr std::array<std::string_view, std::size(kMoments)> kNames{"start",  "busy",   "small",     "pausing",
                                                                     "parent", "groups", "late",      "forking",
                                                                     "worker", "unread", "departing", "ending"};
  return kNames[std::size_t(moment)];
}

namespace {

// Draws some ranks to leave: not the victim, and not all of the other ranks. Mostly draws all ranks that are connected
// with the victim from the start, if there are further ranks.
std::vector<int> any_leaving(const Trial& trial, Random& random) {
  const std::vector<int> neighbours = failure::control_neighbours(trial.victim, trial.ranks);
  std::vector<int> others;
  for (int rank = 0; rank < trial.ranks; rank++)
    if (rank != trial.victim) others.push_back(rank);
  random.shuffle(others);
  const auto is_neighbour = [&](int rank) { return std::ranges::find(neighbours, rank) != neighbours.end(); };
  std::stable_partition(others.begin(), others.end(), is_neighbour);
  const bool has_others = neighbours.size() < others.size();
  others.resize(random.from(has_others && random.percent(80) ? neighbours.size() : 1, others.size() - 1));
  return others;
}

}  // namespace

Trial any_trial(Fault fault, std::uint64_t seed) {
  Random random(seed);
  Trial trial{.fault = fault};
  trial.moment = kMoments[random.below(std::size(kMoments))];
  // Silence of a rank that has not joined is covered by the start timeout.
  if (fault != Fault::kill && (trial.moment == Moment::start || trial.moment == Moment::ending))
    trial.moment = Moment::busy;
  trial.ranks = int(random.from(trial.moment == Moment::departing ? 6 : 2, 8));
  trial.victim = int(random.below(std::uint64_t(trial.ranks)));
  const bool early = trial.moment == Moment::start || trial.moment == Moment::ending;
  trial.delay = milliseconds(random.below(early ? 60 : 200));
  trial.transport = random.percent(50) ? "tcp" : "auto";
  if (trial.moment == Moment::departing) trial.leaving = any_leaving(trial, random);
  return trial;
}

std::string describe(const Trial& trial) {
  std::string leaving;
  for (const int rank : trial.leaving) leaving += text(" ", rank);
  return text(name(trial.fault), " rank ", trial.victim, " of ", trial.ranks, " (", trial.transport, "), ",
              name(trial.moment), leaving, ", after ", trial.delay.count(), " ms");
}

Result carry_out(const Trial& trial, const std::string& victim_program) {
  return TriedWorld(trial, victim_program).play();
}

}  // namespace anello::faults
