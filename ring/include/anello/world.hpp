// The world: all ranks of a job. What they can do together is in group.hpp; here is how a world is known and ended.
#pragma once
#include <anello/group.hpp>
#include <anello/settings.hpp>
#include <memory>
#include <string>
#include <string_view>

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

  // Ends the world on every rank, from any thread, also while calls are in progress: they throw Error{aborted} with
  // this rank and `reason`. Returns at once.
  void abort(std::string_view reason);

  // Waits until every rank has called it, then leaves in good order. Errors as in barrier(). Not needed: the
  // destructor leaves too, but cannot report that another rank failed.
  void finish();

 private:
  friend class WorldMaker;
  class Impl;
  explicit World(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello
