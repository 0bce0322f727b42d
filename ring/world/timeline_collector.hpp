// Makes a world's timeline, from the start of the recording to the file. Aligns the ranks' clocks, and sends the
// records of each rank to rank 0, one rank after another. The calls are collective and block.
#pragma once
#include <anello/group.hpp>
#include <string>

#include "ring/base/descriptor.hpp"
#include "ring/base/log.hpp"
#include "ring/trace/chrome.hpp"

namespace anello::world {

class TimelineCollector {
 public:
  trace::Timeline& timeline() { return timeline_; }
  bool on() const { return timeline_.active(); }

  // Like World::start_timeline() and stop_timeline(). `world`: the group of all ranks.
  void start(Group& world, const std::string& path);
  void stop(Group& world, const std::string& host);

  // Calls start() or stop() at a place where a failure must not end the program. If the file cannot be written, logs a
  // warning.
  template <class Change>
  static void try_to(Change change, const Group& world) {
    try {
      change();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::file) throw;
      if (world.rank() == 0) log(Severity::warning, error.message());
    }
  }

  // For a world that ended while its timeline was on: writes this rank's part to the rank's own file. Throws
  // Error{file}.
  void save_own(int rank, const std::string& host);

 private:
  trace::ClockOffset align(Group& world) const;
  void agree(Group& world);
  void open();
  void write(std::string_view bytes);
  void collect(Group& world, const trace::Recording& recording, const trace::Traced& traced);

  trace::Timeline timeline_;
  trace::TickClock clock_;
  std::string path_;
  Descriptor file_;      // open only on rank 0
  std::string failure_;  // the first error in writing the file
  std::int64_t zero_ns_ = 0;
  trace::ClockOffset first_;
};

}  // namespace anello::world
