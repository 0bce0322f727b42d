// The world: all ranks of a job. What they can do together is in group.hpp; here is how a world is known and ended.
#pragma once
#include <anello/export.h>
#include <anello/diagnosis.hpp>
#include <anello/group.hpp>
#include <anello/settings.hpp>
#include <memory>
#include <string>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

class World : public Group {
 public:
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  // Says goodbye, if finish() has not, without waiting for anybody; never throws.
  ~World();

  int local_rank() const;  // among the ranks of this host
  int local_size() const;
  int node_rank() const;  // of this host among the hosts
  int node_count() const;
  const std::string& host(int rank) const;  // for people: where that rank runs
  // "4 1 memory shared": ranks, hosts, tcp or memory between them, cores of their own or shared ones. The choice of
  // algorithms depends on it and on sizes; a table (ANELLO_TABLE) is for layouts written like this.
  std::string layout() const;

  // Waits until every rank has called it, then leaves in good order. Errors as in barrier(). Not needed: the
  // destructor leaves too, but cannot report that another rank failed. A timeline that is on is written first.
  void finish();

  // All ranks call these two, like collectives; they throw as those do, and Error{file} on all ranks if the file
  // cannot be written. In between every rank records its operations, with all that it sends, receives and reduces and
  // when, and the program's phases; then rank 0 writes what all ranks recorded to `path`, as JSON in Chrome's trace
  // format, which Perfetto opens. Times are those of rank 0's clock, with which the others are compared at start and
  // end. Operations that are underway at either end are left out, and so are those beyond a million steps a rank.
  void start_timeline(const std::string& path);
  void stop_timeline();

  // Any thread; neither blocks.
  Counters counters() const;
  // Writes this rank's last 4,096 operations of each group, and what is queued, to `path` as JSON. Throws Error{file}.
  // ANELLO_FLIGHT_DIR has it done when the world fails, ANELLO_FLIGHT_SIGNAL upon a signal.
  void write_flight(const std::string& path) const;

 private:
  friend class WorldMaker;
  friend class Phase;
  class Impl;
  explicit World(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
