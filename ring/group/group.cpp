// A group's beginning and end, and groups of groups; the operations are in collectives.cpp.
#include <algorithm>
#include <array>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/group_impl.hpp"

namespace anello {

Group::Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

int Group::rank() const {
  return impl_->seat.rank;
}
int Group::size() const {
  return impl_->seat.size;
}
std::span<const int> Group::members() const {
  return impl_->members;
}

std::optional<int> Group::rank_of(int world) const {
  const auto found = std::find(impl_->members.begin(), impl_->members.end(), world);
  if (found == impl_->members.end()) return std::nullopt;
  return int(found - impl_->members.begin());
}

void Group::abort(std::string_view reason) {
  impl_->abort(reason);
}
std::optional<Error> Group::failure() const {
  return impl_->failure();
}

Group Group::group(std::initializer_list<int> members) const {
  return group(std::span<const int>(members.begin(), members.size()));
}

Group Group::group(std::span<const int> members) const {
  std::vector<int> ranks;
  for (const int member : members) {
    if (member < 0 || member >= size())
      refuse("group", text("member ", member, " is not a rank of this group of ", size()));
    const int world = impl_->members[std::size_t(member)];
    if (std::find(ranks.begin(), ranks.end(), world) != ranks.end())
      refuse("group", text("member ", member, " is listed twice"));
    ranks.push_back(world);
  }
  if (std::find(members.begin(), members.end(), rank()) == members.end())
    refuse("group", text("rank ", rank(), " makes a group of which it is no member"));
  return Group(impl_->make(std::move(ranks)));
}

Group Group::split(int colour, int key) {
  const std::array<int, 2> mine{colour, key};
  std::vector<int> all(2 * std::size_t(size()));
  allgather(mine, all, {.name = "split"});
  std::vector<int> members;
  for (int member = 0; member < size(); member++)
    if (all[2 * std::size_t(member)] == colour) members.push_back(member);
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return all[2 * std::size_t(a) + 1] < all[2 * std::size_t(b) + 1]; });
  return group(members);
}

Group::Impl::Impl(OperationQueue::GroupConfig config, std::shared_ptr<DataLinks> links, Surroundings surroundings,
                  Favours favours)
    : seat{config.rank, int(config.recorder->members().size())},
      members(config.recorder->members()),
      settings(config.settings),
      recorder_(config.recorder),
      links_(std::move(links)),
      surroundings_(surroundings),
      favours_(std::move(favours)),
      communicator_(config, surroundings.control, links_.get()) {
  surroundings_.recorders->add(recorder_);
  if (!surroundings_.control) return;
  surroundings_.control->enroll(recorder_);
  surroundings_.link_router->enroll(links_);
}

void Group::Impl::abort(std::string_view reason) const {
  if (!parted_) favours_.abort(reason);
}

std::shared_ptr<Group::Impl> Group::Impl::make(std::vector<int> ranks) const {
  if (parted_) refuse("group", "this rank's world has ended");
  return favours_.group(std::move(ranks));
}

OperationQueue& Group::Impl::transfers(int from, int to) {
  const std::lock_guard lock(mutex_);
  if (parted_) refuse("transfer", "this rank's world has ended");
  auto& pair = transfers_[{from, to}];
  if (!pair) pair = favours_.transfers(recorder_->group(), members[std::size_t(from)], members[std::size_t(to)]);
  return pair->communicator();
}

OperationQueue& Group::Impl::communicator() {
  if (finished_) refuse("world", "used after finish()");
  return communicator_;
}

// The world says goodbye for itself.
void Group::Impl::part() {
  if (parted_.exchange(true)) return;
  communicator_.close();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [ranks, pair] : transfers_) pair->part();
  }
  if (!surroundings_.control) return surroundings_.recorders->remove(recorder_->group());
  if (recorder_->group() != 0) {
    surroundings_.control->part(recorder_->group(), communicator_.completed());
    surroundings_.link_router->part(recorder_->group());
  }
  links_->close();
}

}  // namespace anello
