// A rank's output may block for long: the rank still sends its heartbeats.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/support/full_pipe.hpp"
#include "tests/support/random.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"
#include "tests/support/worlds.hpp"

namespace {

// A file system that hangs: the first call of mkostemp(3) returns late.
class HangingFiles {
 public:
  void go_on() {
    const std::lock_guard lock(mutex_);
    hangs_ = false;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    if (calls_++ == 0) changed_.wait(lock, [this] { return !hangs_; });
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = true;
  int calls_ = 0;
} files;

}  // namespace

// Replaces the C library's function.
extern "C" int mkostemp(char* path, int flags) {
  files.pass();
  return reinterpret_cast<int (*)(char*, int)>(dlsym(RTLD_NEXT, "mkostemp"))(path, flags);
}

namespace anello::world {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kSilenceLimit{kSlowdown > 1 ? 3000 : 1000};

Settings impatient() {
  Settings settings = Settings::from_environment();
  settings.silence_limit = kSilenceLimit;
  return settings;
}

// The ranks make the second call at different times. If a call fails, the output is unblocked, so that the test ends.
void expect_no_error(const Settings& settings, const std::function<void(World&)>& first,
                     const std::function<void()>& go_on) {
  const auto told = told_on_all_ranks(
      2,
      [&](World& world) {
        try {
          world.barrier();
          first(world);
          world.barrier();
        } catch (const Error&) {
          go_on();
          throw;
        }
      },
      settings);
  for (const Told& each : told) EXPECT_FALSE(each.error) << "rank " << each.rank << ": " << each.error->what();
}

// Rank 0 reports that rank 1 is late, and the output of this report blocks. If rank 0's heartbeats then stopped, rank 1
// would report that rank 0 is silent.
TEST(BlockedOutput, OnStandardErrorIsNoFailure) {
  undisturbed(milliseconds(50), [&] {
    Settings settings = impatient();
    settings.stall_time = milliseconds(50);
    FullPipe pipe;
    std::string said;
    expect_no_error(
        settings,
        [](World& world) {
          if (world.rank() == 1) std::this_thread::sleep_for(kSilenceLimit * 3 / 2);
        },
        [&] { said += pipe.read_until("\n"); });
    EXPECT_THAT(said + pipe.read_until("\n"),
                testing::AllOf(HasSubstr("barrier #1 has stalled for"), HasSubstr("rank 0 waits")));
  });
}

// One of the two ranks writes its file first. Meanwhile the other rank still receives the writer's heartbeats.
TEST(BlockedOutput, InAFlightFileIsNoFailure) {
  undisturbed(milliseconds(50), [&] {
    const Scratch scratch;
    Settings settings = impatient();
    settings.flight_signal = "USR2";
    settings.flight_dir = scratch.path();
    expect_no_error(
        settings,
        [](World& world) {
          if (world.rank() != 0) return;
          raise(SIGUSR2);
          std::this_thread::sleep_for(kSilenceLimit * 3 / 2);
          EXPECT_GT(files.calls(), 0);
        },
        [] { files.go_on(); });
    files.go_on();
    const auto written = [&] {
      const auto is_whole = [](const auto& entry) { return entry.path().extension() == ".json"; };
      return std::ranges::count_if(std::filesystem::directory_iterator(scratch.path()), is_whole);
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (written() < 2 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(written(), 2) << "it is written in the end";
  });
}

}  // namespace
}  // namespace anello::world
