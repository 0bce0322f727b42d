// Makes the groups of a world. The first group is the world itself.
#include <algorithm>

#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"
#include "ring/world/world_impl.hpp"

namespace anello {
namespace {

std::string name_of(const std::vector<int>& members) {
  constexpr std::size_t kMax = 16;
  std::string name = "group (";
  for (std::size_t k = 0; k < std::min(members.size(), kMax); k++) name += text(k ? ", " : "", members[k]);
  return name + (members.size() > kMax ? ", ...)" : ")");
}

std::uint64_t identify(std::uint64_t within, std::uint64_t number, const std::vector<int>& members) {
  std::uint64_t group = fingerprint(fingerprint(0, within), number);
  for (const int member : members) group = fingerprint(group, std::uint64_t(member));
  return group;
}

}  // namespace

std::shared_ptr<Group::Impl> World::Impl::make_group_within(std::uint64_t within, std::vector<int> members) {
  const Parentage parentage(within, members);
  const std::uint64_t number = next_number(parentage);
  std::shared_ptr<Group::Impl> made;
  try {
    made = make_group(identify(within, number, members), name_of(members), members);
  } catch (const std::exception&) {  // no descriptor or no memory; the next attempt gets the same number
    const MutexLock lock(mutex_);
    if (std::uint64_t& next = made_[parentage]; next == number + 1) next = number;
    throw;
  }
  // Constructed and destroyed without the lock. If there is no memory for the handle, this rank leaves the group, and
  // the group is removed.
  const std::shared_ptr<Group::Impl> handle = Group::Impl::handle(made);
  const auto over = groups_that_are_over();  // these groups must also be destroyed without the lock
  const MutexLock lock(mutex_);
  if (left_) group::refuse("group", "this rank's world has ended");
  std::erase_if(groups_, [&](const auto& each) { return std::ranges::find(over, each) != over.end(); });
  groups_.push_back(made);
  return handle;
}

// Calls the groups without the world's lock, because groups take their own lock before the world's lock.
std::vector<std::shared_ptr<Group::Impl>> World::Impl::groups_that_are_over() {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Group::Impl>> groups = groups_;
  lock.unlock();
  std::erase_if(groups, [](const auto& each) { return !each->is_over(); });
  return groups;
}

void World::Impl::forget(const Group::Impl& group) {
  const MutexLock lock(mutex_);
  std::erase_if(groups_, [&](const auto& each) { return each.get() == &group; });
}

// Returns null if `place` is not less than the number of groups.
std::shared_ptr<Group::Impl> World::Impl::group_at(std::size_t place) {
  const MutexLock lock(mutex_);
  return place < groups_.size() ? groups_[place] : nullptr;
}

// Makes one group for each direction, with its own baton and its own link. A send that waits for its receiver then does
// not hold the baton or the link of the other direction, so two ranks that send to each other cannot deadlock. One link
// for both directions would save 2 descriptors for each pair of ranks over TCP, and 3 for each pair through shared
// memory. But then the thread with the baton would have to move two operations at a time, even in a call that blocks.
std::shared_ptr<Group::Impl> World::Impl::make_pair(std::uint64_t within, int from, int to) {
  // Makes the number differ from the numbers of other groups of two members.
  constexpr std::uint64_t kTransfers = 0x7472616e73666572;
  const std::uint64_t group =
      fingerprint(fingerprint(fingerprint(kTransfers, within), std::uint64_t(from)), std::uint64_t(to));
  return make_group(group, text("the transfers from rank ", from, " to rank ", to), {from, to});
}

// Each member counts how often one group has made a group of these members. So all members get the same number without
// a message. The count is kept for each parent group, because two parent groups with equal members may make their
// groups in different orders on different ranks, each on its own thread.
std::uint64_t World::Impl::next_number(const Parentage& parentage) {
  const MutexLock lock(mutex_);
  return made_[parentage]++;
}

std::shared_ptr<Group::Impl> World::Impl::make_group(std::uint64_t group, std::string name, std::vector<int> members) {
  const algorithms::Facts facts = places_.facts_of(members, facts_);
  std::vector<int> hosts;
  if (algorithms::hosts_have_several_ranks(facts)) hosts = places_.nodes_of(members);

  const int rank = int(std::find(members.begin(), members.end(), identity_.rank) - members.begin());
  const auto maker = link_router_ ? link_router_->begin(group) : nullptr;
  const auto info = std::make_shared<const link::GroupInfo>(
      link::GroupInfo{.id = group,
                      .name = std::move(name),
                      .members = std::move(members),
                      .bell = maker ? maker->bell() : std::make_shared<link::Bell>()});
  group::OperationQueue::GroupConfig config{.rank = rank,
                                            .generation = identity_.generation,
                                            .facts = facts,
                                            .hosts = std::move(hosts),
                                            .table = table_,
                                            .settings = settings_,
                                            .wait_policy = wait_policy_,
                                            .progress_thread = progress_thread_,
                                            .group = info,
                                            .recorder = std::make_shared<trace::FlightRecorder>(),
                                            .timeline = &timeline_collector_.timeline()};
  Group::Impl::GroupContext context{
      .recorders = &diagnosis_.recorders(),
      .make_group = [this](std::uint64_t within,
                           std::vector<int> some) { return make_group_within(within, std::move(some)); },
      .make_transfers = [this](std::uint64_t within, int from, int to) { return make_pair(within, from, to); },
      .forget = [this](const Group::Impl& over) { forget(over); },
      .abort = [this](std::string_view reason, ErrorCode code) { abort(reason, code); }};
  if (!control_) return std::make_shared<Group::Impl>(std::move(config), nullptr, std::move(context));
  context.control = &*control_;
  context.link_router = &*link_router_;
  auto links = std::make_shared<net::DataLinks>(info, rank, maker);
  return std::make_shared<Group::Impl>(std::move(config), std::move(links), std::move(context));
}

}  // namespace anello
