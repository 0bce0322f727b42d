// The world: all ranks of a job. It is a Group, so all collectives of group.hpp are calls on it. This header has the
// functions that only a world has: where its ranks run, how it ends, and records of its work. There is one World object
// in each process (or in each thread of run_world). A child that fork() makes is not a rank: in the child, collectives,
// counters(), write_flight() and callbacks for work that is not done throw Error{invalid_argument}. Destroying the
// child's copy of the World does not affect the parent's World.
#pragma once
#include <anello/export.h>
#include <anello/diagnosis.hpp>
#include <anello/group.hpp>
#include <anello/settings.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace anello::world {
class WorldMaker;
}

ANELLO_API_BEGIN
namespace anello {
class World : public Group {
 public:
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  // Leaves the world if finish() was not called. Never throws, and does not wait for other ranks. If an exception
  // destroys the World, other ranks that still need this rank get an error that says so. The error contains the
  // exception's text only if the program catches the exception while the World exists, and calls abort(e.what()).
  //
  // If a World still exists when the process calls exit(), this rank leaves it after the destructors of static objects.
  // If the exit status is not 0, it aborts the World, before those destructors (with glibc).
  ~World();

  // None of these functions blocks. host() throws Error{invalid_argument} if there is no such rank.
  int local_rank() const;  // this rank's number among the ranks of this host, from 0 to local_size() - 1
  int local_size() const;  // the number of ranks on this host
  int node_rank() const;   // this host's number among the hosts, from 0 to node_count() - 1
  int node_count() const;  // the number of hosts
  const std::string& host(int rank) const;  // the name of the host on which a rank runs, as in error messages
  // Four words, for example "4 1 memory shared": the number of ranks; the number of hosts; the way in which ranks of
  // one host communicate, tcp or memory; and own or shared: whether each rank has its own cores. The choice of
  // algorithms depends on the layout, and a tuning table (ANELLO_TABLE) names the layout on which it was measured.
  std::string layout() const;

  // Ends the world in good order: blocks until every rank has called it, then leaves. Throws the errors of barrier().
  // The destructor also leaves, but cannot report that another rank failed. A timeline that is being recorded is
  // written first; if that fails, a warning is logged.
  void finish();

  // Records a timeline of all ranks. Both functions are collectives: all ranks call them, they block, and they throw
  // the errors of barrier(). If the file cannot be written, they throw Error{file} on all ranks. Between the two calls
  // every rank records its operations, the steps in which it sends, receives and reduces, and the program's phases.
  // stop_timeline() makes rank 0 write the records of all ranks to `path`, as JSON in Chrome's trace format, which
  // Perfetto opens. Times are those of rank 0's clock; the other clocks are compared with it at start and end. The
  // timeline does not contain operations that were running when the recording started or stopped. It has at most a
  // million steps of each rank.
  void start_timeline(const std::string& path);
  void stop_timeline();

  // Returns this rank's totals. Do not call it after finish(). Any thread; does not block.
  [[nodiscard]] Counters counters() const;
  // Writes this rank's flight record to `path` as JSON: the last 4,096 operations of each group, and the operations
  // that are queued. Throws Error{file}. Any thread; does not wait for operations. When the world fails, the record is
  // also written to ANELLO_FLIGHT_DIR, or to the system's folder for temporary files (`none` turns this off). With
  // ANELLO_FLIGHT_SIGNAL it is also written when the process receives that signal.
  void write_flight(const std::string& path) const;

 private:
  friend class world::WorldMaker;
  friend class Phase;
  class Impl;
  explicit World(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
