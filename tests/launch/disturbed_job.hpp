// An elastic job under `anello run` whose processes are killed, stopped, added and asked to leave at random; if it runs
// on several hosts, their cables are also unplugged.
#pragma once
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "ring/base/text.hpp"
#include "tests/launch/launched.hpp"
#include "tests/launch/seeds.hpp"

namespace anello::launch {

struct Disturbance {
  unsigned seed = 1;
  int first = 4, min = 1, max = 6;  // numbers of processes: at the beginning, and allowed by the job
  int kills = 5, stops = 1, removals = 1, resizes = 3, cuts = 0;  // the relative frequencies of the events
  int spared = -1;                                                // the processes of this place are left alone
  milliseconds shortest{20}, longest{170};  // time between looks; an event needs two looks with equal ranks
};

// The hosts on which a job runs.
struct Site {
  Words options;  // options of `anello run` that choose the hosts of the processes
  std::function<std::unique_ptr<Process>(const Words&, Surroundings)> start =
      [](const Words& command, Surroundings around) { return std::make_unique<Process>(command, std::move(around)); };
  std::function<Outcome(const Words&)> run = [](const Words& command) { return testing::run(command); };
  std::function<pid_t(const Process& launcher, int place)> process_at = launch::process_at;
  // Unplugs a host's cable for some time. Returns a text for the log about this event.
  std::function<std::string(unsigned random)> cut = [](unsigned) { return std::string(); };
};

class DisturbedJob {
 public:
  DisturbedJob(const Disturbance& how, const Words& program, Site site = {})
      : how_(how),
        site_(std::move(site)),
        random_(how.seed),
        started_(site_.start(command(how, site_.options, program), surroundings())) {}

  // Waits until the first world trains, or has already ended. Returns false if neither happens.
  bool begins() {
    for (int looks = 0; looks < 3000 && launcher_.wait(milliseconds(100)) < 0; looks++) {
      const pid_t first = site_.process_at(launcher_, 0);
      if (first > 0 && name_.empty()) name_ = variable_of_process(first, "ANELLO_JOB");
      if (!name_.empty() && !ranks().places.empty()) return true;
    }
    return launcher_.wait(milliseconds(0)) >= 0;
  }
  // Lets events happen until `enough` is true, or the job has ended.
  void disturb(const std::function<bool()>& enough) {
    const int span = int((how_.longest - how_.shortest).count());
    while (!enough() && launcher_.wait(how_.shortest + milliseconds(int(random_()) % span)) < 0) happen();
  }
  // Asks for this number of processes, and waits until that many processes have ranks.
  bool settle(int size) {
    resize(size);
    for (int looks = 0; looks < 3000; looks++) {
      if (int(ranks().places.size()) == size) return true;
      if (launcher_.wait(milliseconds(100)) >= 0) break;
      if (looks % 100 == 99) resize(size);  // a process that was stopped or killed before has been replaced meanwhile
    }
    return false;
  }

  // Waits for the end of the job. If a process is killed after the end of the training, the job rightly fails.
  bool ends_well() { return launcher_.wait() == 0 || contains(launcher_.err(), " after the training had ended"); }

  Process& launcher() { return launcher_; }
  const Process& launcher() const { return launcher_; }
  int events() const { return events_; }
  std::string story() const { return text("seed ", how_.seed, ":\n", log_, launcher_.out(), launcher_.err()); }

 private:
  static Words command(const Disturbance& how, const Words& options, const Words& program) {
    Words words = anello({"run", "-n", std::to_string(how.first), "--min-np", std::to_string(how.min), "--max-np",
                          std::to_string(how.max), "--max-restarts", "100000"});
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  static Surroundings surroundings() {
    return {.environment = {"ANELLO_FLIGHT_DIR=none", text("ANELLO_SILENCE_LIMIT=", kSilenceLimit.count())}};
  }

  void happen() {
    if (stopped_ > 0 && testing::alive(stopped_)) return;  // only the others may have the state
    const Ranks now = ranks();
    const bool same = now == last_ranks_ && has_the_state(now.world);  // all ranks have had the state for some time
    last_ranks_ = now;
    if (!same) return;
    // `anello status` shows a process that was killed with its rank until the next world, although another process may
    // already have its place.
    std::vector<int> unhurt = now.places;
    std::erase_if(unhurt, [&](int place) { return hit_.contains({now.world, place}); });
    if (int(unhurt.size()) <= std::max(how_.min, 2)) return resize(places_);
    const int victim = unhurt[random_() % unhurt.size()];
    const int changes = how_.kills + how_.stops + how_.removals;
    const int event = int(random_() % unsigned(changes + how_.resizes + how_.cuts));
    if (event >= changes + how_.resizes) return note(site_.cut(unsigned(random_())));
    if (event >= changes) return resize(how_.min + 1 + int(random_() % unsigned(places_ - how_.min)));
    if (victim == how_.spared) return;
    if (event < how_.kills) return signal(victim, SIGKILL);
    if (event < how_.kills + how_.stops) return signal(victim, SIGSTOP);
    remove(victim);
  }

  // A place that is removed stays empty, so some places are not removed, for the rest of the job.
  void remove(int place) {
    if (places_ <= how_.first) return resize(places_);
    note(text("remove ", place));
    if (site_.run(anello({"remove", "--job", name_, std::to_string(place)})).code == 0) places_--;
  }
  void resize(int size) {
    note(text("resize to ", size));
    (void)site_.run(anello({"resize", "--job", name_, std::to_string(size)}));  // refused while the job ends
  }

  void signal(int place, int number) {
    note(text("signal ", number, " to process ", place));
    const pid_t pid = site_.process_at(launcher_, place);
    if (pid > 0) ::kill(pid, number);
    if (number == SIGSTOP) stopped_ = pid;
    hit_.insert({last_ranks_.world, place});
    last_ranks_ = {};
  }

  // The newest world, and the places that have a rank in it.
  struct Ranks {
    int world = 0;
    std::vector<int> places;
    bool operator==(const Ranks&) const = default;
  };
  Ranks ranks() {
    Ranks now;
    const std::string table = site_.run(anello({"status", name_})).out;
    if (const auto at = table.find(", world "); at != std::string::npos)
      now.world = std::atoi(table.c_str() + at + sizeof ", world");
    for (const std::string& line : testing::lines(table))
      if (line.find(": rank ") != std::string::npos) now.places.push_back(std::atoi(line.c_str() + sizeof "process"));
    return now;
  }
  // On a busy machine seconds may pass between the beginning of a world and the end of the state's transfer. Rank 0
  // prints when all ranks have the state, except in the first world.
  bool has_the_state(int world) const {
    return world == 1 || contains(launcher_.err(), text("world ", world, " has "));
  }

  void note(const std::string& event) {
    log_ += event + "\n";
    events_++;
  }

  const Disturbance how_;
  const Site site_;
  std::mt19937 random_;
  const std::unique_ptr<Process> started_;
  Process& launcher_ = *started_;
  std::string name_, log_;
  Ranks last_ranks_;
  std::set<std::pair<int, int>> hit_;  // the world and the place of each process that got a signal
  int places_ = how_.max;
  pid_t stopped_ = -1;
  int events_ = 0;
};

}  // namespace anello::launch
