// How a world makes its groups. The first is the world itself.
#include <algorithm>
#include <iterator>
#include <set>

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

}  // namespace

std::shared_ptr<Group::Impl> World::Impl::make_group(std::vector<int> members) {
  const std::uint64_t group = identify(members);
  std::string name = name_of(members);
  auto made = make_group(group, std::move(name), std::move(members));
  std::vector<std::unique_ptr<Group::Impl>> done;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto idle = std::partition(kept_.begin(), kept_.end(), [](const auto& each) { return !each->idle(); });
  done.assign(std::move_iterator(idle), std::move_iterator(kept_.end()));
  kept_.erase(idle, kept_.end());
  if (left_) group::refuse("group", "this rank's world has ended");
  std::erase_if(groups_, [](const auto& each) { return each.expired(); });
  groups_.push_back(made);
  return made;
}

// If the world has ended, the group ends here.
void World::Impl::keep(std::unique_ptr<Group::Impl> group) {
  const std::lock_guard lock(mutex_);
  if (!left_) kept_.push_back(std::move(group));
}

// One for each direction, so that two ranks that send to each other do not wait for each other.
std::shared_ptr<Group::Impl> World::Impl::make_pair(std::uint64_t within, int from, int to) {
  constexpr std::uint64_t kTransfers = 0x7472616e73666572;  // so that it differs from groups of two members
  const std::uint64_t group =
      fingerprint(fingerprint(fingerprint(kTransfers, within), std::uint64_t(from)), std::uint64_t(to));
  return make_group(group, text("the transfers from rank ", from, " to rank ", to), {from, to});
}

// All members count the groups that they have made of these members, so they get the same number without a message.
std::uint64_t World::Impl::identify(const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  std::uint64_t group = fingerprint(0, made_[members]++);
  for (const int member : members) group = fingerprint(group, std::uint64_t(member));
  return group;
}

std::shared_ptr<Group::Impl> World::Impl::make_group(std::uint64_t group, std::string name, std::vector<int> members) {
  std::set<int> nodes;
  std::set<std::string> memories;
  for (const int member : members) {
    nodes.insert(nodes_[std::size_t(member)]);
    memories.insert(memories_[std::size_t(member)]);
  }
  algorithms::Facts facts = facts_;
  facts.world = int(members.size());
  facts.hosts = int(nodes.size());
  facts.memory = memories.size() == 1 && !memories.contains("");
  if (group == 0) facts_ = facts;

  const int rank = int(std::find(members.begin(), members.end(), identity_.rank) - members.begin());
  const auto maker = link_router_ ? link_router_->begin(group) : nullptr;
  const auto info = std::make_shared<const link::GroupInfo>(
      link::GroupInfo{.id = group,
                      .name = std::move(name),
                      .members = std::move(members),
                      .bell = maker ? maker->bell() : std::make_shared<link::Bell>()});
  group::OperationQueue::GroupConfig config{
      .rank = rank,
      .generation = identity_.generation,
      .facts = facts,
      .table = table_,
      .settings = settings_,
      .wait_policy = link::WaitPolicy::of(settings_.spin, settings_.yields, shares_cores_),
      .group = info,
      .recorder = std::make_shared<trace::FlightRecorder>(),
      .timeline = &timeline_collector_.timeline()};
  Group::Impl::GroupContext context{
      .recorders = &diagnosis_.recorders(),
      .make_group = [this](std::vector<int> some) { return make_group(std::move(some)); },
      .make_transfers = [this](std::uint64_t within, int from, int to) { return make_pair(within, from, to); },
      .keep = [this](std::unique_ptr<Group::Impl> ends) { keep(std::move(ends)); },
      .abort = [this](std::string_view reason) { abort(reason); }};
  const auto shared = [](auto... arguments) {
    return std::shared_ptr<Group::Impl>(new Group::Impl(std::move(arguments)...), Group::Impl::release);
  };
  if (!control_) return shared(std::move(config), nullptr, std::move(context));
  context.control = &*control_;
  context.link_router = &*link_router_;
  auto links = std::make_shared<net::DataLinks>(info, rank, maker);
  return shared(std::move(config), std::move(links), std::move(context));
}

}  // namespace anello
