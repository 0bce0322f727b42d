#include "ring/failure/local_view.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::failure {

bool LocalView::Group::contains(int rank) const {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

LocalView::LocalView(int rank, std::vector<std::string> hosts, Recall recall)
    : rank_(rank), hosts_(std::move(hosts)), recall_(std::move(recall)) {
  std::vector<int> all(hosts_.size());
  std::iota(all.begin(), all.end(), 0);
  add_group(0, "the world", std::move(all));
}

void LocalView::add_group(std::uint64_t id, std::string name, std::vector<int> members) {
  groups_[id] = {std::move(name), std::move(members), std::nullopt};
}

void LocalView::refuse(std::uint64_t group, const Refusal& refusal) {
  if (const auto found = groups_.find(group); found != groups_.end()) found->second.refusal = refusal;
}

std::string LocalView::named(int rank) const {
  return text("rank ", rank, " on ", hosts_[std::size_t(rank)]);
}

NamedSignature LocalView::named(const Signature& operation) const {
  const auto begun = recall_(operation.group, operation.sequence);
  if (begun && *begun == operation) return *begun;
  return operation;
}

const LocalView::Group* LocalView::group(std::uint64_t id) const {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second;
}

}  // namespace anello::failure
