#include "ring/world/timeline_collector.hpp"

#include <fcntl.h>

#include <array>
#include <utility>
#include <vector>

#include "ring/base/file.hpp"
#include "ring/base/log.hpp"
#include "ring/base/os.hpp"
#include "ring/base/signature.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"
#include "ring/group/text_exchange.hpp"

namespace anello::world {
namespace {

constexpr int kQuestions = 64;
constexpr Options kOptions{.name = "timeline"};

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// True if both ranks read the same clock, so that nothing needs to be measured.
bool share_clock(Group& pair) {
  const std::string identity = kernel_identity("time");
  std::uint64_t clock = 0;
  for (const char c : identity) clock = fingerprint(clock, std::uint64_t(c));
  std::array<std::uint64_t, 2> both{};
  pair.allgather(std::span(&clock, 1), both, {.name = kOptions.name});
  return both[0] == both[1] && clock != 0;
}

// Measures how far the two clocks of a pair differ. Member 0 asks, member 1 answers, and both get the result.
trace::ClockOffset measure(Group& pair) {
  if (share_clock(pair)) return {steady_ns(), 0, 0};
  std::vector<trace::ClockSample> samples;
  std::int64_t word = 0;
  for (int k = 0; k < kQuestions; k++) {
    const std::int64_t sent = steady_ns();
    pair.broadcast(std::span(&word, 1), 0, kOptions);
    word = steady_ns();
    pair.broadcast(std::span(&word, 1), 1, kOptions);
    samples.push_back({sent, word, steady_ns()});
  }
  trace::ClockOffset offset = estimate(samples);
  std::array<std::int64_t, 3> result{offset.at_ns, offset.behind_ns, offset.within_ns};
  pair.broadcast(result, 0, kOptions);
  return {result[0], result[1], result[2]};
}

// Calls use(pair) for each pair of rank 0 and another rank, one pair after another.
template <class Use>
void each_pair(Group& world, Use use) {
  for (int peer = 1; peer < world.size(); peer++) {
    if (world.rank() != 0 && world.rank() != peer) continue;
    Group pair = world.group({0, peer});
    use(pair);
  }
}

}  // namespace

// On rank 0 the offset is 0, because all times are converted to rank 0's clock.
trace::ClockOffset TimelineCollector::align(Group& world) const {
  trace::ClockOffset mine{steady_ns(), 0, 0};
  each_pair(world, [&](Group& pair) {
    const trace::ClockOffset measured = measure(pair);
    if (pair.rank() == 1) mine = measured;
  });
  return mine;
}

// Throws rank 0's error on all ranks, if rank 0 has one.
void TimelineCollector::agree(Group& world) {
  const std::string failure = group::broadcast_text(0, world, std::exchange(failure_, {}), kOptions);
  if (!failure.empty()) throw Error(ErrorCode::file, "the timeline " + failure, 0);
}

void TimelineCollector::open() {
  constexpr mode_t kReadableByAll = 0644;
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kReadableByAll));
  if (!file_) failure_ = system_error(text("'", path_, "' cannot be written"), ErrorCode::file).message();
}

// After an error, writes nothing more. But rank 0 continues to receive, because the other ranks wait for it.
void TimelineCollector::write(std::string_view bytes) {
  if (!failure_.empty()) return;
  try {
    write_all(file_, path_, bytes);
  } catch (const Error& e) {
    failure_ = e.message();
  }
}

void TimelineCollector::start(Group& world, const std::string& path) {
  if (on()) group::refuse("start_timeline", text("the timeline '", path_, "' is already on"));
  path_ = group::broadcast_text(0, world, path, kOptions);
  if (world.rank() == 0) open();
  agree(world);
  first_ = align(world);
  zero_ns_ = steady_ns();
  world.broadcast(std::span(&zero_ns_, 1), 0, kOptions);
  timeline_.start();
}

void TimelineCollector::stop(Group& world, const std::string& host) {
  if (!on()) group::refuse("stop_timeline", "no timeline is on");
  const trace::Recording recording = timeline_.stop();
  collect(world, recording, {world.rank(), host, zero_ns_, {first_, align(world)}});
  file_ = {};
  agree(world);
}

// Sends one piece at a time, so that rank 0 never holds the records of all ranks. An empty piece marks the end.
void TimelineCollector::collect(Group& world, const trace::Recording& recording, const trace::Traced& traced) {
  const trace::TickClock::Scale scale = clock_.scale();
  if (world.rank() == 0) {
    write(trace::chrome_head());
    chrome_events(recording, traced, scale, true, [&](std::string_view piece) { write(piece); });
  }
  each_pair(world, [&](Group& pair) {
    const auto pass_on = [&](std::string_view piece) {
      return group::broadcast_text(1, pair, std::string(piece), kOptions);
    };
    if (pair.rank() == 0)
      for (std::string piece = pass_on(""); !piece.empty(); piece = pass_on("")) write(piece);
    else
      chrome_events(recording, traced, scale, false, pass_on), pass_on("");
  });
  if (world.rank() == 0) write(trace::chrome_tail());
}

void TimelineCollector::save_own(int rank, const std::string& host) {
  const trace::Recording recording = timeline_.stop();
  std::string all = trace::chrome_head();
  chrome_events(recording, {rank, host, zero_ns_, {first_, first_}}, clock_.scale(), true,
                [&](std::string_view piece) { all += piece; });
  const std::string path = text(path_, ".rank", rank);
  replace_file(path, all + trace::chrome_tail());
  log(Severity::warning, text("the world ended while its timeline was on: this rank's part is in '", path, "'"));
}

}  // namespace anello::world
