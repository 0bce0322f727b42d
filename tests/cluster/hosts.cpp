#include "tests/cluster/hosts.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/support/pattern.hpp"

namespace anello::cluster {
namespace {

using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;
constexpr testing::Milliseconds kLook{20};

std::string folder() {
  const char* const value = std::getenv("CLUSTER");
  if (!value) throw std::runtime_error("there is no cluster here: start this program through tests/cluster/cluster.sh");
  return value;
}

std::vector<std::string> command_on(int host, const std::string& script) {
  return {folder() + "/on_host", std::to_string(host), "bash", "-c", script};
}

testing::Surroundings reproducible(testing::Surroundings surroundings) {
  surroundings.environment.push_back("ANELLO_REPRODUCIBLE=1");
  surroundings.environment.push_back("CLUSTER");
  return surroundings;
}

// Returns the last line of a training on six ranks of one host, such as "parameters e19500aea17760e1".
const std::string& local_result(const std::string& options) {
  static std::map<std::string, std::string> results;
  std::string& result = results[options];
  if (!result.empty()) return result;
  const testing::Outcome local = on(0, "anello run -n 6 -- " + kTrain + " " + options);
  if (const auto found = pattern::find(local.out, "parameters [0-9a-f]{16}")) result = found->front();
  EXPECT_NE(result, "") << local.out << local.err;
  return result;
}

int count(const std::string& text, const std::string& part) {
  int times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) times++;
  return times;
}

// Cancels jobs after each test: a failed test may leave a job for which the next test would wait.
class CancelJobs : public ::testing::EmptyTestEventListener {
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (test.result()->Failed()) on(0, "scancel -u root; until [ -z \"$(squeue -h)\" ]; do sleep 0.1; done");
  }
};
[[maybe_unused]] const bool cancels_jobs = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new CancelJobs);
  return true;
}();

}  // namespace

testing::Outcome on(int host, const std::string& script, testing::Surroundings surroundings) {
  return testing::run(command_on(host, script), reproducible(std::move(surroundings)));
}

std::unique_ptr<testing::Process> start(int host, const std::string& script, testing::Surroundings surroundings) {
  return std::make_unique<testing::Process>(command_on(host, script), reproducible(std::move(surroundings)));
}

testing::Outcome end_of(testing::Process& job) {
  const int code = job.wait();
  return {code, job.out(), job.err()};
}

std::string in_tree(const std::string& path) {
  return text(ANELLO_SOURCE_DIR, "/", path);
}
std::string recipe(const std::string& name) {
  return in_tree("trainer/recipes/" + name);
}

void expect_result(const testing::Outcome& outcome, const std::string& options) {
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(count(outcome.out, "done: "), 1) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(local_result(options) + " on all 6 ranks")) << outcome.err;
}

void expect_trained(const testing::Outcome& outcome, const std::string& options) {
  expect_result(outcome, options);
  expect_gone("anello-train");
}

void expect_alone(const testing::Outcome& outcome, int times) {
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(count(outcome.out, "training on 1 rank, 1 host"), times) << outcome.out << outcome.err;
  EXPECT_EQ(count(outcome.out, "done: "), times) << outcome.out << outcome.err;
}

std::vector<pid_t> processes(const std::string& program) {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code gone;
    const std::string runs = std::filesystem::read_symlink(entry.path() / "exe", gone).filename();
    if (runs == program && testing::alive(pid_t(std::stol(name)))) out.push_back(pid_t(std::stol(name)));
  }
  return out;
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + testing::kLong;
  while (!condition() && Clock::now() < deadline) std::this_thread::sleep_for(kLook);
  return condition();
}

void expect_gone(const std::string& program) {
  EXPECT_TRUE(eventually([&] { return processes(program).empty(); })) << "processes of " << program << " are left";
}

std::vector<std::string> ancestors(pid_t process) {
  std::vector<std::string> out;
  while (process > 1) {
    std::string status, name;
    std::getline(std::ifstream(text("/proc/", process, "/status")), status, '\0');
    const auto found = pattern::find(status, "Name:\t(.*)\n(?:.*\n)*PPid:\t(.*)\n");
    if (!found) break;
    out.push_back((*found)[1]);
    process = pid_t(std::stol((*found)[2]));
  }
  return out;
}

void start_grid_engine() {
  static const testing::Outcome started = testing::run({"bash", in_tree("tests/cluster/grid_engine.sh")});
  ASSERT_EQ(started.code, 0) << started.out << started.err;
}

Descriptor occupy(int host, int port, bool listens) {
  Descriptor listener;
  std::thread([&] {  // only this thread's network is changed
    const Descriptor network(open(text("/run/netns/h", host).c_str(), O_RDONLY | O_CLOEXEC));
    if (setns(network.get(), CLONE_NEWNET) != 0) return;
    listener = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in where{.sin_family = AF_INET, .sin_port = htons(std::uint16_t(port))};
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0 ||
        (listens && listen(listener.get(), 16) != 0))
      listener.close();
  })
      .join();
  EXPECT_TRUE(listener) << "port " << port << " of h" << host << " cannot be taken";
  return listener;
}

void plug(int host, bool in) {
  EXPECT_EQ(testing::run({"ip", "-n", "switch", "link", "set", text("port", host), in ? "up" : "down"}).code, 0);
}

Unplugged::Unplugged(int host) : host_(host) {
  plug(host, false);
}

Unplugged::~Unplugged() {
  plug(host_, true);
  const std::string wait = text("until [ \"$(sinfo -h -t idle -o %D)\" = 3 ]; do scontrol update nodename=h", host_,
                                " state=resume 2>/dev/null; sleep 0.2; done");
  EXPECT_EQ(on(0, wait).code, 0);
  // A host that could not be reached stays unreachable for a moment.
  const std::string reach_all = "for host in h0 h1 h2; do until (: </dev/tcp/$host/22); do sleep 0.05; done; done";
  for (const int host : {0, 1, 2}) EXPECT_EQ(on(host, reach_all).code, 0);
}

}  // namespace anello::cluster
