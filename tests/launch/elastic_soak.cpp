// One elastic job of 2 to 8 processes, which is disturbed several times a second until it has had as many worlds as
// ANELLO_ELASTIC_WORLDS says (default 20). Each world must begin with the state of an undisturbed training. Three
// processes live as long as the job. At the end they may hold no more resources than after the first worlds: the
// launcher, which serves the rendezvous; the keeper below it; and process 0, which is spared, and has been in every
// world.
#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/launch/disturbed_job.hpp"
#include "tests/rendezvous/trainee.hpp"
#include "tests/support/random.hpp"
#include "tests/support/resources.hpp"

namespace anello::launch {
namespace {

struct Held {
  std::string program;
  std::ptrdiff_t descriptors = 0, threads = 0, mapped_files = 0;
  long kib = 0;
};

Held held_by(pid_t pid) {
  const std::string folder = text("/proc/", pid);
  Held held{.descriptors = entries((folder + "/fd").c_str()), .threads = entries((folder + "/task").c_str())};
  std::ifstream maps(folder + "/maps"), status(folder + "/status");
  for (std::string line; std::getline(maps, line);)
    held.mapped_files += contains(line, "memfd:") || contains(line, "/dev/shm/");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Name:")) held.program = line.substr(line.find_last_of("\t ") + 1);
    if (line.starts_with("VmRSS:")) held.kib = std::atol(line.c_str() + sizeof "VmRSS:");
  }
  return held;
}

std::string describe(const std::vector<Held>& all) {
  std::string out;
  for (const Held& each : all)
    out += text("  ", each.program, ": ", each.descriptors, " descriptors, ", each.threads, " threads, ",
                each.mapped_files, " mapped files, ", each.kib, " KiB\n");
  return out;
}

std::string compare(const Held& before, const Held& after) {
  constexpr long kMoreKib = kSlowdown > 1 ? 1 << 20 : 4096;  // the heap is not compacted; sanitizers keep freed memory
  const auto grown = [&](const char* what, long first, long last, long allowed) {
    return last <= first + allowed ? "" : text(before.program, " had ", first, " ", what, ", and has ", last, "\n");
  };
  return text(grown("descriptors", before.descriptors, after.descriptors, 0),
              grown("threads", before.threads, after.threads, 0),
              grown("mapped files", before.mapped_files, after.mapped_files, 0),
              grown("KiB", before.kib, after.kib, kMoreKib));
}

class Soak {
 public:
  explicit Soak(int worlds)
      : worlds_(worlds),
        job_(disturbance(worlds), {TRAINEE, "1000000000000", "20", "2000000000", std::to_string(kWeights)}) {}

  // Returns what was wrong.
  std::string run() {
    if (!job_.begins()) return "it does not begin";
    const auto begun = std::chrono::steady_clock::now();
    if (!disturb_until(kFirstWorlds)) return "it has ended, or hangs";
    const std::vector<Held> before = held();
    if (!disturb_until(std::max(worlds_, 2 * kFirstWorlds))) return "it has ended, or hangs";
    const std::vector<Held> after = held_as(before);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    std::printf("%d worlds and %d events in %.0f s\nafter the first worlds:\n%sin the end:\n%s", newest_world(),
                job_.events(), took.count(), describe(before).c_str(), describe(after).c_str());
    const std::string wrong = wrong_states() + differences(before, after);
    job_.launcher().signal(SIGTERM);
    if (const int code = job_.launcher().wait(); code != 128 + SIGTERM) return text(wrong, "it ended with ", code);
    return wrong + (job_.launcher().none_left() ? "" : "processes are left");
  }
  std::string story() const { return job_.story(); }

 private:
  // A place whose processes fail again and again rests for up to a minute. So in a long run most events are changes of
  // the size.
  static Disturbance disturbance(int worlds) {
    const bool is_long = worlds > 1000;
    return {.first = 5,
            .min = 2,
            .max = 8,
            .kills = is_long ? 1 : 3,
            .stops = 1,
            .removals = is_long ? 0 : 4,
            .resizes = is_long ? 60 : 8,
            .spared = 0,
            .shortest = milliseconds(is_long ? 40 : 100),
            .longest = milliseconds(is_long ? 120 : 250)};
  }
  static constexpr int kFirstWorlds = 10, kMeasuredSize = 3;

  // Returns false if the job ends first, or if no world begins for a long time. The last world must have begun after
  // the loss of a process, without a newcomer, because a rank that sends the state to a newcomer keeps a thread until
  // the end of the world.
  bool disturb_until(int number) {
    int newest = 0;
    auto since = std::chrono::steady_clock::now();
    job_.disturb([&] {
      const auto now = std::chrono::steady_clock::now();
      if (std::exchange(newest, newest_world()) != newest) since = now;
      return newest >= number || now - since > testing::kLong;
    });
    return newest >= number && settles();
  }
  // A process of the world may still be stopped. Then the others go on without it, and its place rests before it gets
  // another process.
  bool settles() {
    for (int attempts = 0; attempts < 10; attempts++) {
      if (!job_.settle(kMeasuredSize + 1) || !job_.settle(kMeasuredSize)) return false;
      job_.launcher().wait(kRest);
      const int newest = newest_world();
      job_.launcher().wait(kSilenceLimit + kRest);
      if (newest_world() == newest && worlds().back().size == kMeasuredSize) return true;
    }
    return false;
  }

  // The processes that live as long as the job, in the order in which they began.
  std::vector<Held> held() {
    job_.launcher().wait(kRest);
    std::vector<pid_t> living = job_.launcher().marked();
    std::ranges::sort(living);
    std::vector<Held> all;
    for (const pid_t pid : living)
      if (const std::string place = variable_of_process(pid, "ANELLO_PLACE"); place.empty() || place == "0")
        all.push_back(held_by(pid));
    return all;
  }

  static std::string differences(const std::vector<Held>& before, const std::vector<Held>& after) {
    if (before.size() != after.size()) return "other processes live now";
    std::string found;
    for (std::size_t i = 0; i < before.size(); i++) found += compare(before[i], after[i]);
    return found;
  }
  // A thread that is about to end, or a world that has just begun, is not a leak, because a leak would stay.
  std::vector<Held> held_as(const std::vector<Held>& before) {
    constexpr int kLooks = 10;
    std::vector<Held> now = held();
    for (int look = 1; look < kLooks && !differences(before, now).empty(); look++) now = held();
    return now;
  }

  struct World {
    int number, size;
    std::uint64_t revision;
    double digest;
  };
  // The worlds of process 0.
  std::vector<World> worlds() const {
    std::vector<World> all;
    for (const std::string& line : testing::lines(job_.launcher().out())) {
      World world{};
      if (std::sscanf(line.c_str(),
                      "[0] world %d: rank %*d of %d at %lu, %*u got %*u bytes, paused %*d us, weights %lf",
                      &world.number, &world.size, &world.revision, &world.digest) == 4)
        all.push_back(world);
    }
    return all;
  }
  int newest_world() const {
    const std::vector<World> all = worlds();
    return all.empty() ? 0 : all.back().number;
  }

  // Compares the state at the beginning of each world with that of an undisturbed training.
  std::string wrong_states() const {
    trainee::Undisturbed undisturbed(kWeights);
    for (const World& world : worlds())
      if (undisturbed.after(world.revision) != world.digest)
        return text("the state at the beginning of world ", world.number, " is wrong\n");
    return "";
  }

  static constexpr std::size_t kWeights = 100;
  static constexpr milliseconds kRest{2000};  // connections of the last world close
  const int worlds_;
  DisturbedJob job_;
};

TEST(ElasticSoak, HoldsNoMoreAfterManyWorlds) {
  const char* const worlds = std::getenv("ANELLO_ELASTIC_WORLDS");
  Soak soak(worlds ? std::atoi(worlds) : 0);
  EXPECT_EQ(soak.run(), "") << soak.story();
}

}  // namespace
}  // namespace anello::launch
