#include "tests/faults/failing_trial.hpp"

#include <cstring>
#include <deque>
#include <sstream>

#include "rendezvous/server/server.hpp"
#include "ring/base/text.hpp"
#include "tests/support/process.hpp"

namespace anello::faults {
namespace {

using testing::Process;

// A job whose victim fails; the server is in this process.
class FailingJob {
 public:
  FailingJob(const FailingTrial& trial, const std::string& program) : server_({.size = trial.ranks}) {
    for (int rank = 0; rank < trial.ranks; rank++) {
      const std::vector<std::string> environment{text("ANELLO_RANK=", rank),
                                                 text("ANELLO_SIZE=", trial.ranks),
                                                 text("ANELLO_RENDEZVOUS=127.0.0.1:", server_.port()),
                                                 text("ANELLO_TRANSPORT=", trial.transport),
                                                 "ANELLO_STALL_TIME=2000",
                                                 "ANELLO_START_TIMEOUT=120000",
                                                 "ANELLO_FLIGHT_DIR=none"};
      const std::vector<std::string> command{program,
                                             text(trial.victim),
                                             trial.phase,
                                             trial.failing.name,
                                             text(trial.failing.number),
                                             text(trial.failing.error)};
      ranks_.emplace_back(command, testing::Surroundings{.environment = environment});
    }
  }

  // Returns the line that a rank printed. If the rank did not end properly, returns "hung", or "crashed" and how.
  std::string end_of(int rank, testing::Milliseconds limit) {
    Process& process = ranks_[std::size_t(rank)];
    const int code = process.wait(limit);
    if (code == 0) return process.out();
    return text(code < 0 ? "hung" : "crashed", " (", code, "): ", process.out(), process.err());
  }

 private:
  RendezvousServer server_;
  std::deque<Process> ranks_;
};

constexpr testing::Milliseconds kHangs{60000};

bool right(const std::string& end) {
  return end.starts_with("right");
}
bool names(const std::string& end, int victim) {
  return end.starts_with("told ") &&
         (end.find(text(" ", victim, " ")) < end.find('\n') || end.find(text("rank ", victim)) != std::string::npos);
}
bool may_crash(const FailingCall& failing) {
  return failing.name == "new" || failing.name == "aligned_alloc" || failing.name == "pthread_create";
}
bool ends_as_promised(const std::string& end, const FailingTrial& trial) {
  return end.starts_with("told ") || (may_crash(trial.failing) && end.starts_with("crashed ("));
}

}  // namespace

std::string describe(const FailingTrial& trial) {
  return text(trial.phase, ", ", trial.transport, ": ", trial.failing.name, " #", trial.failing.number, " fails with ",
              strerrorname_np(trial.failing.error) ? strerrorname_np(trial.failing.error) : "nothing");
}

std::map<std::string, std::uint64_t> count_calls(const FailingTrial& trial, const std::string& program) {
  FailingJob job(trial, program);
  std::map<std::string, std::uint64_t> counted;
  std::istringstream lines(job.end_of(trial.victim, kHangs));
  for (std::string word; lines >> word;) {
    std::string name;
    if (word == "call" && lines >> name) lines >> counted[name];
  }
  return counted;
}

std::string carry_out(const FailingTrial& trial, const std::string& program) {
  FailingJob job(trial, program);
  std::vector<std::string> ends;
  bool all_right = true, others_end_as_promised = true;
  for (int rank = 0; rank < trial.ranks; rank++) {
    ends.push_back(job.end_of(rank, kHangs));
    all_right &= right(ends.back());
    if (rank == trial.victim) continue;
    others_end_as_promised &= names(ends.back(), trial.victim) || (trial.phase == "end" && right(ends.back()));
  }
  if (all_right || (others_end_as_promised && ends_as_promised(ends[std::size_t(trial.victim)], trial))) return {};
  std::string wrong;
  for (int rank = 0; rank < trial.ranks; rank++) wrong += text("\n  rank ", rank, ": ", ends[std::size_t(rank)]);
  return wrong;
}

}  // namespace anello::faults
