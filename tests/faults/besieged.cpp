#include "tests/faults/besieged.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <deque>
#include <fstream>
#include <optional>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

namespace anello::faults {
namespace {

using asio::ip::tcp;
using std::chrono::steady_clock;
using testing::Milliseconds;
using testing::Process;

constexpr int kRanks = 4;
constexpr int kPorts = 2 + 2 * kRanks;
constexpr Milliseconds kJobLimit{600'000};
const std::string kSecret(64, 's');

double children_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long memory_kib(pid_t pid) {
  std::ifstream status(text("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(line.find(':') + 1));
  return 0;
}

// Adds the numbers of rejected connections on the page at this port.
void add_counts(std::uint16_t port, trace::RejectedConnections::Counts& counts) {
  asio::io_context context;
  tcp::socket socket(context);
  socket.connect({asio::ip::address_v4::loopback(), port});
  asio::write(socket, asio::buffer(std::string("GET /metrics HTTP/1.1\r\n\r\n")));
  std::string page;
  asio::error_code end;
  asio::read(socket, asio::dynamic_buffer(page), end);
  for (std::size_t k = 0; k < trace::kRejectReasons; k++) {
    const std::string label = text("kind=\"", name(trace::RejectReason(k)), "\"} ");
    const std::size_t at = page.find(label);
    if (at == std::string::npos) throw Error(ErrorCode::protocol, text("no ", label, "at port ", port));
    counts[k] += std::stoull(page.substr(at + label.size()));
  }
}

std::string private_file(const std::filesystem::path& path) {
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path;
}

class BesiegedJob {
 public:
  explicit BesiegedJob(const Job& job) : job_(job) {}

  Outcome play() {
    const auto begun = steady_clock::now();
    const double cpu_before = children_cpu_s();
    if (!start_server()) return outcome_;
    std::optional<Siege> siege;
    if (job_.of_each_kind > 0) siege.emplace(plan());
    for (int rank = 0; rank < kRanks; rank++) start_rank(rank);
    if (siege) endure(*siege);
    ranks_[0].close_input();
    for (Process& rank : ranks_)
      if (const int code = rank.wait(kJobLimit); code != 0) fail(text("a rank ended with ", code, ": ", rank.err()));
    server_->signal(SIGTERM);
    server_->wait();
    outcome_.wall_s = std::chrono::duration<double>(steady_clock::now() - begun).count();
    outcome_.cpu_s = children_cpu_s() - cpu_before;
    return outcome_;
  }

 private:
  testing::Surroundings with(std::vector<std::string> more) const {
    more.push_back("ANELLO_SECRET_FILE=" + secret_file_);
    return {.environment = std::move(more)};
  }

  bool start_server() {
    const std::vector<std::string> command{job_.server, "rendezvous", "--port",    text(server_port_),
                                           "--size",    text(kRanks), "--metrics", text("127.0.0.1:", server_metrics_)};
    server_.emplace(command, with({}));
    if (!server_->says("ANELLO_RENDEZVOUS=")) fail("no server: " + server_->err());
    return outcome_.wrong.empty();
  }

  void start_rank(int rank) {
    ranks_.emplace_back(job_.command, with({text("ANELLO_RANK=", rank), text("ANELLO_SIZE=", kRanks),
                                            text("ANELLO_RENDEZVOUS=127.0.0.1:", server_port_),
                                            text("ANELLO_PORT_RANGE=", rank_ports_, "-", rank_ports_ + kRanks - 1),
                                            text("ANELLO_METRICS=127.0.0.1:", rank_metrics_)}));
  }

  Siege::Plan plan() const {
    Siege::Plan plan{{"default", kSecret}, {server_port_}, job_.of_each_kind, job_.a_second};
    for (int rank = 0; rank < kRanks; rank++) plan.doors.push_back(std::uint16_t(rank_ports_ + rank));
    return plan;
  }

  std::vector<long> memories() const {
    std::vector<long> all{memory_kib(server_->pid())};
    for (const Process& rank : ranks_) all.push_back(memory_kib(rank.pid()));
    return all;
  }

  // A rank that has ended leaves a port where no process listens.
  bool all_live() {
    const auto check = [&](Process& process, const std::string& who) {
      if (process.wait(Milliseconds(0)) == -1) return;
      const int code = process.wait();
      fail(text(who, " ended with ", code, " during the siege: ", process.out(), process.err()));
    };
    check(*server_, "the server");
    for (std::size_t k = 0; k < ranks_.size(); k++) check(ranks_[k], text("rank ", k));
    return outcome_.wrong.empty();
  }

  void endure(Siege& siege) {
    const double seconds = double(job_.of_each_kind) * double(kHostiles) / double(job_.a_second);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds / 4));
    const std::vector<long> before = memories();
    while (!siege.wait(Milliseconds(100)))
      if (!all_live()) return;
    const std::vector<long> after = memories();
    for (std::size_t k = 0; k < after.size(); k++) {
      outcome_.grown_kib = std::max(outcome_.grown_kib, after[k] - before[k]);
      outcome_.max_kib = std::max(outcome_.max_kib, after[k]);
    }
    outcome_.made = siege.made();
    try {
      add_counts(server_metrics_, outcome_.counted);
      for (int rank = 0; rank < kRanks; rank++) add_counts(std::uint16_t(rank_metrics_ + rank), outcome_.counted);
    } catch (const std::exception& e) {
      fail(text("the job ended before the siege did: ", e.what()));
    }
  }

  void fail(const std::string& why) {
    if (outcome_.wrong.empty()) outcome_.wrong = why;
  }

  const Job job_;
  const std::uint16_t server_port_ = consecutive_free_ports(kPorts);
  const std::uint16_t server_metrics_ = std::uint16_t(server_port_ + 1), rank_ports_ = std::uint16_t(server_port_ + 2),
                      rank_metrics_ = std::uint16_t(rank_ports_ + kRanks);
  Scratch scratch_;
  const std::string secret_file_ = private_file(scratch_.put("secret", kSecret + "\n"));
  std::optional<Process> server_;
  std::deque<Process> ranks_;
  Outcome outcome_;
};

}  // namespace

Outcome carry_out(const Job& job) {
  return BesiegedJob(job).play();
}

std::string miscounted(const Outcome& outcome) {
  const auto made = [&](Hostile kind) { return outcome.made[std::size_t(kind)]; };
  const auto counted = [&](trace::RejectReason kind) { return long(outcome.counted[std::size_t(kind)]); };
  struct Pair {
    std::string_view what;
    long made, counted;
  };
  const Pair pairs[] = {
      {"noise", made(Hostile::noise), counted(trace::RejectReason::noise)},
      {"oversized", made(Hostile::oversized), counted(trace::RejectReason::oversized)},
      {"silence", made(Hostile::prefix) + made(Hostile::half_open),
       counted(trace::RejectReason::silent) + counted(trace::RejectReason::crowded_out)},
      {"secret", made(Hostile::replayed) + made(Hostile::wrong_secret), counted(trace::RejectReason::secret)},
      {"job", made(Hostile::wrong_job), counted(trace::RejectReason::job)},
      {"generation", made(Hostile::old_generation),
       counted(trace::RejectReason::generation) + counted(trace::RejectReason::place)},
  };
  std::string all;
  for (const Pair& pair : pairs)
    if (pair.made != pair.counted) all += text(" ", pair.what, ": made ", pair.made, ", counted ", pair.counted, ";");
  return all;
}

}  // namespace anello::faults
