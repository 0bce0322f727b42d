#include "rendezvous/launch/agents/agent_task.hpp"

#include <poll.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <anello/version.hpp>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "rendezvous/launch/job/hosts.hpp"
#include "rendezvous/launch/job/start_command.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

constexpr std::size_t kMaxHeading = 256, kMaxTaskBytes = 64 << 20;
constexpr std::uint32_t kMaxWords = 1 << 20;

void put(Writer& out, const std::vector<std::string>& words) {
  out.u32(std::uint32_t(words.size()));
  for (const std::string& word : words) out.str(word);
}

std::vector<std::string> get_words(Reader& in) {
  const std::uint32_t count = in.u32();
  if (count > kMaxWords || count > in.left()) throw Error(ErrorCode::protocol, text("task: claims ", count, " words"));
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < count; i++) out.push_back(in.str(in.left()));
  return out;
}

void put(Writer& out, const Layout& layout) {
  out.u32(std::uint32_t(layout.size()));
  for (const HostRanks& here : layout) out.str(here.host).i32(here.first).i32(here.count);
}

Layout get_layout(Reader& in) {
  const std::uint32_t count = in.u32();
  if (count > kMaxWords || count > in.left()) throw Error(ErrorCode::protocol, text("task: claims ", count, " hosts"));
  Layout out;
  for (std::uint32_t i = 0; i < count; i++) {
    HostRanks here;
    here.host = in.str(in.left());
    here.first = in.i32();
    here.count = in.i32();
    out.push_back(here);
  }
  return out;
}

std::string task_heading() {
  return text("anello agent of version ", version(), "\n");
}

AgentTask decode_task(std::string_view body) {
  Reader in("task", body);
  AgentTask task;
  task.job.command = get_words(in);
  task.job.size = in.i32();
  task.job.layout = get_layout(in);
  task.job.name = in.str(in.left());
  task.job.secret = in.str(in.left());
  task.job.bind = in.u8() != 0;
  task.job.columns = in.i32();
  task.job.max_restarts = in.i32();
  task.job.restart = in.i32();
  if (in.u8() != 0) task.job.elastic.emplace();
  task.job.master.address = in.str(in.left());
  task.job.master.port = in.str(in.left());
  task.addresses = get_words(in);
  task.port = in.u16();
  task.by_ssh = in.u8() != 0;
  task.folder = in.str(in.left());
  task.environment = get_words(in);
  task.separate_errors = in.u8() != 0;
  in.finish();
  return task;
}

// Returns the addresses at which the hosts of a job can find the launcher. Even a launcher without a network can start
// ranks, by a command that stays on its host.
std::vector<std::string> launcher_addresses(bool all_here) {
  const std::string loopback = "127.0.0.1";
  if (all_here) return {loopback};
  std::vector<std::string> out = net::addresses_for_other_hosts(loopback, net::local_interfaces());
  return out.empty() ? std::vector{loopback} : out;
}

class TaskReader {
 public:
  TaskReader(int fd, std::chrono::milliseconds limit) : fd_(fd), limit_(limit) {}

  std::string bytes(std::size_t count) {
    std::string out(count, '\0');
    for (std::size_t have = 0; have < count;) {
      wait();
      const ssize_t got = read(fd_, out.data() + have, count - have);
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) throw Error(ErrorCode::protocol, "the task ends too early; only `anello run` can start an agent");
      have += std::size_t(got);
    }
    return out;
  }

  std::string line() {
    std::string out;
    do out += bytes(1);
    while (out.back() != '\n' && out.size() < kMaxHeading);
    return out;
  }

 private:
  void wait() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(began_ + limit_ - std::chrono::steady_clock::now());
    pollfd entry{fd_, POLLIN, 0};
    if (left.count() <= 0 || poll(&entry, 1, int(left.count())) == 0)
      throw Error(ErrorCode::timed_out, text("no task has come for ", double(limit_.count()) / 1000,
                                             " s; only `anello run` can start an agent"));
  }

  const int fd_;
  const std::chrono::milliseconds limit_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

std::string folder_of_ranks() {
  std::error_code missing;
  std::string out = std::filesystem::current_path(missing).string();
  if (missing)
    throw Error(ErrorCode::configuration, text("the current folder cannot be found (", missing.message(),
                                               "); change to one that all hosts have"));
  return out;
}

AgentTask make_task(const Job& job, const std::string& folder, std::uint16_t port) {
  AgentTask task;
  task.job = job;
  task.addresses = launcher_addresses(all_on_this_host(job));
  task.port = port;
  task.folder = folder;
  return task;
}

std::string encode(const AgentTask& task) {
  Writer out;
  put(out, task.job.command);
  out.i32(task.job.size);
  put(out, task.job.layout);
  out.str(task.job.name).str(task.job.secret).u8(task.job.bind).i32(task.job.columns);
  out.i32(task.job.max_restarts).i32(task.job.restart).u8(task.job.elastic.has_value());
  out.str(task.job.master.address).str(task.job.master.port);
  put(out, task.addresses);
  out.u16(task.port).u8(task.by_ssh).str(task.folder);
  put(out, task.environment);
  out.u8(task.separate_errors);
  return text(task_heading(), out.bytes().size(), "\n", out.bytes());
}

AgentTask read_task(int fd, std::chrono::milliseconds limit) {
  TaskReader reader(fd, limit);
  const std::string heading = reader.line();
  if (heading != task_heading())
    throw Error(ErrorCode::configuration, text("this is Anello ", version(), ", but `anello run` says: ",
                                               printable(trimmed(heading)), "; install the same version on all hosts"));
  const std::string digits(trimmed(reader.line()));
  return decode_task(reader.bytes(std::size_t(parse_number("the task's size", digits, 0, long(kMaxTaskBytes)))));
}

}  // namespace anello::launch
