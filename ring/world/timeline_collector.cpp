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
#include "ring/group/consensus.hpp"
#include "ring/group/checks.hpp"

namespace anello {
namespace {

constexpr int kQuestions = 64;
constexpr Options kOptions{.name = "timeline"};

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Both read the same clock: then there is nothing to measure.
bool share_clock(Group& pair) {
  const std::string kernel = kernel_identity("time");
  std::uint64_t clock = 0;
  for (const char c : kernel) clock = fingerprint(clock, std::uint64_t(c));
  std::array<std::uint64_t, 2> both{};
  pair.allgather(std::span(&clock, 1), both, {.name = kOptions.name});
  return both[0] == both[1] && clock != 0;
}

// Of a pair: 0 asks, 1 answers, and is told the result.
ClockOffset measure(Group& pair) {
  if (share_clock(pair)) return {steady_ns(), 0, 0};
  std::vector<ClockSample> samples;
  std::int64_t word = 0;
  for (int k = 0; k < kQuestions; k++) {
    const std::int64_t sent = steady_ns();
    pair.broadcast(std::span(&word, 1), 0, kOptions);
    word = steady_ns();
    pair.broadcast(std::span(&word, 1), 1, kOptions);
    samples.push_back({sent, word, steady_ns()});
  }
  ClockOffset offset = estimate(samples);
  std::array<std::int64_t, 3> result{offset.at_ns, offset.behind_ns, offset.within_ns};
  pair.broadcast(result, 0, kOptions);
  return {result[0], result[1], result[2]};
}

// Of rank 0 with each other rank, one after another.
template <class Use>
void each_pair(Group& world, Use use) {
  for (int peer = 1; peer < world.size(); peer++) {
    if (world.rank() != 0 && world.rank() != peer) continue;
    Group pair = world.group({0, peer});
    use(pair);
  }
}

}  // namespace

// Its own clock is exact on rank 0.
ClockOffset TimelineCollector::align(Group& world) const {
  ClockOffset mine{steady_ns(), 0, 0};
  each_pair(world, [&](Group& pair) {
    const ClockOffset measured = measure(pair);
    if (pair.rank() == 1) mine = measured;
  });
  return mine;
}

// What went wrong on rank 0 is thrown by all.
void TimelineCollector::agree(Group& world) {
  const std::string failure = broadcast_text(0, world, std::exchange(failure_, {}), kOptions);
  if (!failure.empty()) throw Error(ErrorCode::file, "the timeline " + failure, 0);
}

void TimelineCollector::open() {
  constexpr mode_t kReadableByAll = 0644;
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kReadableByAll));
  if (!file_) failure_ = system_error(text("'", path_, "' cannot be written"), ErrorCode::file).message();
}

// The others wait for what rank 0 writes, so it goes on even if it cannot.
void TimelineCollector::write(std::string_view bytes) {
  if (!failure_.empty()) return;
  try {
    write_all(file_, path_, bytes);
  } catch (const Error& e) {
    failure_ = e.message();
  }
}

void TimelineCollector::start(Group& world, const std::string& path) {
  if (on()) refuse("start_timeline", text("the timeline '", path_, "' is on already"));
  path_ = broadcast_text(0, world, path, kOptions);
  if (world.rank() == 0) open();
  agree(world);
  first_ = align(world);
  zero_ns_ = steady_ns();
  world.broadcast(std::span(&zero_ns_, 1), 0, kOptions);
  timeline_.start();
}

void TimelineCollector::stop(Group& world, const std::string& host) {
  if (!on()) refuse("stop_timeline", "there is none on");
  const Recording recording = timeline_.stop();
  collect(world, recording, {world.rank(), host, zero_ns_, {first_, align(world)}});
  file_ = {};
  agree(world);
}

// A piece at a time, so that rank 0 never holds what all ranks recorded; an empty one is the last.
void TimelineCollector::collect(Group& world, const Recording& recording, const Traced& traced) {
  const TickClock::Scale scale = clock_.scale();
  if (world.rank() == 0) {
    write(chrome_head());
    chrome_events(recording, traced, scale, true, [&](std::string_view piece) { write(piece); });
  }
  each_pair(world, [&](Group& pair) {
    const auto pass_on = [&](std::string_view piece) { return broadcast_text(1, pair, std::string(piece), kOptions); };
    if (pair.rank() == 0)
      for (std::string piece = pass_on(""); !piece.empty(); piece = pass_on("")) write(piece);
    else
      chrome_events(recording, traced, scale, false, pass_on), pass_on("");
  });
  if (world.rank() == 0) write(chrome_tail());
}

void TimelineCollector::save_own(int rank, const std::string& host) {
  const Recording recording = timeline_.stop();
  std::string all = chrome_head();
  chrome_events(recording, {rank, host, zero_ns_, {first_, first_}}, clock_.scale(), true,
                [&](std::string_view piece) { all += piece; });
  const std::string path = text(path_, ".rank", rank);
  replace_file(path, all + chrome_tail());
  log(Severity::warning, text("the world ended while its timeline was on: this rank's part is in '", path, "'"));
}

}  // namespace anello
