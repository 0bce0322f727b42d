// An elastic job whose processes are killed, stopped, added and asked to leave at random. Its result must be that of an
// undisturbed training, and nothing may be left. ANELLO_ELASTIC_RUNS=1000 repeats it, with other seeds.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "ring/base/text.hpp"
#include "tests/launch/launched.hpp"
#include "tests/rendezvous/trainee.hpp"

namespace anello::launch {
namespace {

// One job and what happens to it.
class DisturbedJob {
 public:
  static constexpr int kPlaces = 6, kTrainingSteps = 3000, kDisturbedWorlds = 12;

  explicit DisturbedJob(unsigned seed)
      : random_(seed),
        launcher_(
            anello({"run", "-n", "4", "--min-np", "1", "--max-np", std::to_string(kPlaces), "--max-restarts", "1000",
                    "--", TRAINEE, std::to_string(kTrainingSteps), "10", std::to_string(kDisturbedWorlds)}),
            {.environment = {"ANELLO_FLIGHT_DIR=none", "ANELLO_SILENCE_LIMIT=2000"}}) {}

  // Returns what went wrong.
  std::string run() {
    if (!launcher_.says("[3] world 1: ")) return "it does not begin";
    name_ = variable_of_process(process_at(launcher_, 0), "ANELLO_JOB");
    for (int events = 0; events < 200 && launcher_.wait(milliseconds(20 + int(random_() % 150))) < 0; events++)
      happen();
    if (launcher_.wait() != 0) return text("it ended with ", launcher_.wait());
    const std::string result =
        text("weights ", std::uint64_t(trainee::expected(100, kTrainingSteps)), " at ", kTrainingSteps, "\n");
    std::size_t results = 0;
    for (const std::string& line : testing::lines(launcher_.out())) {
      if (line.find("] weights ") == std::string::npos) continue;
      if (line + "\n" != line.substr(0, line.find(']') + 2) + result) return "another result: " + line;
      results++;
    }
    if (results == 0) return "no process has a result";
    return launcher_.none_left() ? "" : "processes are left";
  }
  const std::string& log() const { return log_; }
  const Process& launcher() const { return launcher_; }

 private:
  void happen() {
    if (stopped_ > 0 && testing::alive(stopped_)) return;  // the others may be the last that have the state
    const std::vector<int> ranks = places_with_ranks();
    const bool same = ranks == last_ranks_;  // all of them have had the state for some time
    last_ranks_ = ranks;
    if (!same || ranks.size() < 3) return;
    const int victim = ranks[random_() % ranks.size()];
    const int event = int(random_() % 10);
    if (event < 6) return signal(victim, SIGKILL);
    if (event < 7) return signal(victim, SIGSTOP);
    const std::string size = std::to_string(3 + random_() % (kPlaces - 2));
    note("resize to " + size);
    (void)testing::run(anello({"resize", "--job", name_, size}));  // refused while the job ends
  }

  void signal(int place, int number) {
    note(text("signal ", number, " to process ", place));
    const pid_t pid = process_at(launcher_, place);
    if (pid > 0) ::kill(pid, number);
    if (number == SIGSTOP) stopped_ = pid;
    last_ranks_.clear();
  }

  std::vector<int> places_with_ranks() {
    std::vector<int> out;
    const std::string table = testing::run(anello({"status", name_})).out;
    for (const std::string& line : testing::lines(table))
      if (line.find(": rank ") != std::string::npos) out.push_back(std::atoi(line.c_str() + sizeof "process"));
    return out;
  }

  void note(const std::string& event) { log_ += event + "\n"; }

  std::mt19937 random_;
  Process launcher_;
  std::string name_, log_;
  std::vector<int> last_ranks_;
  pid_t stopped_ = -1;
};

TEST(ElasticEvents, ChangeNothing) {
  const char* const runs = std::getenv("ANELLO_ELASTIC_RUNS");
  const char* const first = std::getenv("ANELLO_ELASTIC_SEED");
  for (int seed = first ? std::atoi(first) : 1; seed <= (runs ? std::atoi(runs) : 2); seed++) {
    if (runs) std::printf("seed %d\n", seed), std::fflush(stdout);
    DisturbedJob job{unsigned(seed)};
    const std::string wrong = job.run();
    ASSERT_EQ(wrong, "") << "seed " << seed << ":\n" << job.log() << job.launcher().out() << job.launcher().err();
  }
}

}  // namespace
}  // namespace anello::launch
