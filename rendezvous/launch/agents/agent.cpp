#include "rendezvous/launch/agents/agent.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "rendezvous/launch/agents/agent_connection.hpp"
#include "rendezvous/launch/agents/agent_messages.hpp"
#include "rendezvous/launch/agents/agent_task.hpp"
#include "rendezvous/launch/agents/lifeline.hpp"
#include "rendezvous/launch/agents/message_stream.hpp"
#include "rendezvous/launch/agents/relay.hpp"
#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/job/master.hpp"
#include "rendezvous/launch/processes/descendants.hpp"
#include "rendezvous/launch/processes/local_ranks.hpp"
#include "rendezvous/protocol/host.hpp"
#include "ring/base/config.hpp"
#include "ring/base/cores.hpp"
#include "ring/base/standard_descriptors.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using Kind = AgentMessage::Kind;

constexpr std::chrono::milliseconds kRanksLastBytes{1000}, kWithoutKeeper{5000}, kTaskLimit{60000};

class Agent {
 public:
  Agent(const AgentTask& task, const HostRanks& here, AgentConnection connection, char** argv)
      : task_(task),
        here_(here),
        argv_(argv),
        inherited_children_(children()),
        messages_(std::move(connection.messages)),
        lifeline_(std::move(connection.lifeline), Settings::from_environment().silence_limit),
        address_(std::move(connection.address)) {}

  // Returns the exit code.
  int run() {
    while (!messages_.closed() && !lifeline_.broken()) {
      PollSet polls;
      watch(polls);
      polls.wait();
      finish_when_done();
    }
    ranks_.reset();  // ends all processes
    return finished_ ? 0 : 1;
  }

 private:
  void watch(PollSet& polls) {
    messages_.watch(polls, [this](std::string_view bytes) { obey(decode_message(bytes)); });
    lifeline_.watch(polls);
    if (ranks_) ranks_->watch(polls);
    for (const auto& source : outputs_) source->watch(polls);
    if (input_) input_->watch(polls);
    if (none_left_ && !finished_ && !output_waits()) polls.until(last_bytes_until_);
  }

  void obey(const AgentMessage& message) {
    if (message.kind == Kind::question) send({.kind = Kind::answer});
    if (message.kind == Kind::find_master) offer_master(message.bytes);
    if (message.kind == Kind::master) master_ = decode_master(message.bytes);
    if (message.kind == Kind::start) start(message);
    if (!ranks_) return;
    if (message.kind == Kind::order) ranks_->order({Order::Kind(message.number), message.value, message.rank});
    if (message.kind == Kind::input && input_) input_->arrived(message.bytes);
    if (message.kind == Kind::output_taken && std::size_t(message.number) < outputs_.size()) {
      outputs_[std::size_t(message.number)]->taken(std::size_t(message.value));
      last_bytes_until_ = std::chrono::steady_clock::now() + kRanksLastBytes;
    }
  }

  // True if a stream is not being read because the launcher has not yet written the earlier bytes.
  bool output_waits() const {
    return std::ranges::any_of(outputs_, [](const auto& source) { return source->open() && !source->has_room(); });
  }

  void offer_master(const std::string& reached_at) try {
    const Master master = find_master(task_.job, reached_at.empty() ? address_ : reached_at);
    send({.kind = Kind::master, .bytes = encode(master)});
  } catch (const Error& error) {
    fail(error);
  }

  // Starts the ranks. If this fails, sends the failure to the launcher, which reports it.
  void start(const AgentMessage& message) try {
    if (ranks_) return;
    if (chdir(task_.folder.c_str()) < 0)
      throw system_error(text("the working directory ", task_.folder, " cannot be used there"), ErrorCode::file);
    send({.kind = Kind::cores, .value = int(1000 * available_cores().count())});
    start_ranks(message.bytes, std::uint16_t(message.number));
  } catch (const Error& error) {
    fail(error);
  }
  void fail(const Error& error) {
    send({.kind = Kind::failed, .bytes = error.what()});
    finish();
  }

  void start_ranks(const std::string& rendezvous_host, std::uint16_t port);
  Descriptor output(int stream);

  void send(const AgentMessage& message) { messages_.send(encode(message)); }
  void finish() {
    finished_ = true;
    send({.kind = Kind::done});
    messages_.finish();
  }

  // Sends `done` when no rank is left and all output has been sent. The launcher then closes the connection.
  void finish_when_done() {
    if (!none_left_ || finished_) return;
    const bool closed = std::ranges::none_of(outputs_, [](const auto& source) { return source->open(); });
    const auto now = std::chrono::steady_clock::now();
    if (!closed && (output_waits() || now < last_bytes_until_)) return;
    for (const auto& source : outputs_) source->end();
    finish();
  }

  // Called when the keeper has been killed. The kernel has killed the ranks, and this process has adopted the processes
  // that the ranks leave behind.
  void ended(const std::string& how) {
    if (alive_ > 0) end_children(inherited_children_, kWithoutKeeper);
    const bool is_missed = alive_ > 0 || (task_.job.elastic && !how.empty());  // an elastic job may start others here
    if (is_missed) return send({.kind = Kind::failed, .bytes = how}), finish();
    none_left_ = true;
    last_bytes_until_ = std::chrono::steady_clock::now() + kRanksLastBytes;
    send({.kind = Kind::none_left});
  }

  void report(const Report& report) {
    alive_ += report.kind == Report::Kind::started ? 1 : report.kind == Report::Kind::exited ? -1 : 0;
    // The launcher must have the last bytes of a process when it starts another process in its place.
    if (task_.job.elastic && report.kind == Report::Kind::exited)
      for (const int stream : {output_stream(report.rank - here_.first), error_stream(report.rank - here_.first)})
        outputs_[std::size_t(stream)]->read_some();
    send({Kind::report, int(report.kind), report.rank, int(report.pid), report.status});
  }

  const AgentTask& task_;
  const HostRanks& here_;
  char** argv_;
  const std::vector<pid_t> inherited_children_;
  const Signals signals_{std::vector<int>()};  // no signal is wanted, because only the launcher ends an agent
  MessageStream messages_;
  Lifeline lifeline_;
  const std::string address_;  // address of this host
  Master master_;
  std::vector<std::unique_ptr<RelaySource>> outputs_;  // by stream
  std::unique_ptr<RelaySink> input_;
  std::unique_ptr<LocalRanks> ranks_;
  int alive_ = 0;
  bool none_left_ = false, finished_ = false;
  std::chrono::steady_clock::time_point last_bytes_until_{};
};

// Makes the pipe of one stream. Returns the end into which a rank writes.
Descriptor Agent::output(int stream) {
  const auto send_bytes = [this, stream](std::string_view bytes) {
    last_bytes_until_ = std::chrono::steady_clock::now() + kRanksLastBytes;
    send({.kind = Kind::output, .number = stream, .bytes = std::string(bytes)});
  };
  Pipe pipe = make_pipe();
  set_nonblocking(pipe.read);
  outputs_.resize(std::max(outputs_.size(), std::size_t(stream) + 1));
  outputs_[std::size_t(stream)] = std::make_unique<RelaySource>(std::move(pipe.read), send_bytes);
  return std::move(pipe.write);
}

void Agent::start_ranks(const std::string& rendezvous_host, std::uint16_t port) {
  const Inherited inherited{signals_.mask_before(), open_files_limit().now, argv_};
  raise_open_files_limit(here_.count);
  check_this_host();
  std::vector<RankEnds> ends(std::size_t(here_.count));
  for (int local = 0; local < here_.count; local++) {
    RankEnds& rank = ends[std::size_t(local)];
    rank.out = output(output_stream(local));
    if (task_.separate_errors) rank.err = output(error_stream(local));
    if (!task_.separate_errors) outputs_.push_back(std::make_unique<RelaySource>(Descriptor(), [](auto) {}));
  }
  if (here_.has(0)) {
    Pipe pipe = make_pipe();
    ends[0].in = std::move(pipe.read);
    const auto taken = [this](std::size_t bytes) { send({.kind = Kind::input_taken, .value = int(bytes)}); };
    input_ = std::make_unique<RelaySink>(std::move(pipe.write), taken);
  }
  RankEvents events{.reported = [this](const Report& one) { report(one); },
                    .last_word = [this](const auto& word) { send({.kind = Kind::last_word, .bytes = encode(word)}); },
                    .host_lost = {},
                    .cores_known = {},
                    .ended = [this](const std::string& how) { ended(how); }};
  ranks_ = std::make_unique<LocalRanks>(task_.job, here_, rendezvous_host, master_, std::move(ends), inherited,
                                        std::move(events), lifeline_.duplicate());
  ranks_->start(port);
}

int own_number(const AgentTask& task, const std::vector<std::string>& words) {
  const int hosts = int(task.job.layout.size());
  if (!words.empty()) return int(parse_number("the agent's number", words[0], 0, hosts - 1));
  const std::string name = environment("SLURMD_NODENAME").value_or(rendezvous::host_name());
  const auto mine = std::ranges::find(task.job.layout, name, &HostRanks::host);
  if (mine == task.job.layout.end())
    throw Error(ErrorCode::configuration, text("'", name, "' is not one of the job's hosts"));
  return int(mine - task.job.layout.begin());
}

}  // namespace

int agent_command(const std::vector<std::string>& words, char** argv) {
  open_missing_standard_descriptors();
  std::signal(SIGCHLD, SIG_DFL);
  const AgentTask task = read_task(STDIN_FILENO, kTaskLimit);
  const int number = own_number(task, words);
  for (const std::string& entry : task.environment)
    setenv(entry.substr(0, entry.find('=')).c_str(), entry.substr(std::min(entry.find('=') + 1, entry.size())).c_str(),
           1);
  const HostRanks& here = task.job.layout[std::size_t(number)];
  try {
    return Agent(task, here, connect_to_launcher(task, number), argv).run();
  } catch (Error& error) {
    throw error.within(rendezvous::host_name());
  }
}

}  // namespace anello::launch
