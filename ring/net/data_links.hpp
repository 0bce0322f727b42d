// The data links of one group. Each link is opened when an operation first needs it: the higher rank connects, the
// lower rank accepts. Used by the thread that moves the group's data; ring/net/link_maker.hpp does the work on the
// background thread.
#pragma once
#include <memory>
#include <vector>

#include "ring/link/group_info.hpp"
#include "ring/link/link.hpp"
#include "ring/net/link_maker.hpp"

namespace anello::net {

class DataLinks {
 public:
  // `rank`: this process's rank in the group. `group` must have the bell of `maker`.
  DataLinks(std::shared_ptr<const link::GroupInfo> group, int rank, std::shared_ptr<LinkMaker> maker);

  // Returns the link to the group's `peer`, or null while it is being made.
  link::Link* find(int peer);
  // Closes all links. Call after the last operation.
  void close();

 private:
  void collect();
  int world_rank(int peer) const { return group_->members[std::size_t(peer)]; }
  // True if this rank makes the connection; the rank with the higher world rank does.
  bool connects(int peer) const { return world_rank(peer) < world_rank(rank_); }

  std::shared_ptr<const link::GroupInfo> group_;
  int rank_;
  std::shared_ptr<LinkMaker> maker_;
  std::vector<std::unique_ptr<link::Link>> links_;
  std::vector<bool> asked_;
};

}  // namespace anello::net
