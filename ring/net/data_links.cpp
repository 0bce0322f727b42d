#include "ring/net/data_links.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::net {

DataLinks::DataLinks(std::shared_ptr<const link::GroupInfo> group, int rank, std::shared_ptr<LinkMaker> maker)
    : group_(std::move(group)),
      rank_(rank),
      maker_(std::move(maker)),
      links_(group_->members.size()),
      asked_(group_->members.size()) {}

link::Link* DataLinks::find(int peer) {
  auto& link = links_[std::size_t(peer)];
  if (link) return link.get();
  collect();
  if (!link && connects(peer) && !asked_[std::size_t(peer)]) {
    asked_[std::size_t(peer)] = true;
    maker_->connect(world_rank(peer));
  }
  return link.get();
}

void DataLinks::collect() {
  for (LinkMaker::Made& made : maker_->take()) {
    const auto member = std::ranges::find(group_->members, made.peer);
    if (member == group_->members.end())
      log(Severity::info, text("dropped a data connection of rank ", made.peer, ", which is not in ", group_->name));
    else if (auto& link = links_[std::size_t(member - group_->members.begin())])
      log(Severity::info, text("dropped a second data connection of rank ", made.peer));
    else
      link = std::move(made.link);
  }
}

void DataLinks::close() {
  maker_->close();
  links_.clear();
}

}  // namespace anello::net
