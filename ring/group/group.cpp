// How a group begins and ends, and how it makes smaller groups. The operations are in collectives.cpp.
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/group/group_impl.hpp"

namespace anello {

Group::Group(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

int Group::rank() const {
  return impl_->self.rank;
}
int Group::size() const {
  return impl_->self.size;
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
      group::refuse("group", text("member ", member, " is not a rank of this group of ", size()));
    const int world = impl_->members[std::size_t(member)];
    if (std::find(ranks.begin(), ranks.end(), world) != ranks.end())
      group::refuse("group", text("member ", member, " is listed twice"));
    ranks.push_back(world);
  }
  if (std::find(members.begin(), members.end(), rank()) == members.end())
    group::refuse("group", text("rank ", rank(), " is making this group but is not one of its members"));
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

Group::Impl::Impl(group::OperationQueue::GroupConfig config, std::shared_ptr<net::DataLinks> links,
                  GroupContext context)
    : self{config.rank, int(config.group->members.size())},
      members(config.group->members),
      settings(config.settings),
      group_(config.group),
      recorder_(config.recorder),
      links_(std::move(links)),
      context_(std::move(context)),
      queue_(std::make_shared<group::OperationQueue>(config, context_.control, links_.get())),
      progress_thread_(config.progress_thread),
      wait_policy_(config.wait_policy),
      timeline_(config.timeline),
      generation_(config.generation) {
  context_.recorders->add(group_->id, group_->name, members, recorder_);
  if (!context_.control) return;
  context_.control->enroll(group_);
}

void Group::Impl::abort(std::string_view reason, ErrorCode code) const {
  if (queue_->caller().in_child()) return;
  const MutexLock lock(mutex_);
  if (!left_) context_.abort(reason, code);
}

std::shared_ptr<Group::Impl> Group::Impl::make(std::vector<int> ranks) const {
  queue_->caller().check_process();
  const MutexLock lock(mutex_);
  if (left_) group::refuse("group", "this rank's world has ended");
  return context_.make_group(group_->id, std::move(ranks));
}

group::OperationQueue& Group::Impl::sends(int to) {
  group::check_peer("send", to, self);
  return transfers(self.rank, to);
}

group::OperationQueue& Group::Impl::receives(int from, std::string_view call) {
  group::check_peer(call, from, self);
  return transfers(from, self.rank);
}

// Returns the queue of the transfers from member `from` to member `to`.
group::OperationQueue& Group::Impl::transfers(int from, int to) {
  queue_->caller().check_process();
  const MutexLock lock(mutex_);
  if (left_) group::refuse("transfer", "this rank's world has ended");
  auto pair = transfers_.find({from, to});
  if (pair == transfers_.end()) {
    // May throw, so nothing has changed yet.
    auto made = context_.make_transfers(group_->id, members[std::size_t(from)], members[std::size_t(to)]);
    pair = transfers_.emplace(std::pair(from, to), std::move(made)).first;
  }
  return pair->second->queue();
}

void Group::Impl::when_leaving(std::function<void()> call) {
  {
    const MutexLock lock(mutex_);
    if (!left_) when_leaving_ = std::exchange(call, nullptr);
  }
  if (call) call();
}

group::OperationQueue& Group::Impl::queue() {
  if (finished_) group::refuse("world", "used after finish()");
  return *queue_;
}

// A child that fork() made must not destroy any part of a group, because threads that do not exist in the child may
// hold the group's locks.
std::shared_ptr<Group::Impl> Group::Impl::handle(std::shared_ptr<Impl> group) {
  Impl* const shared = group.get();
  return {shared, [group = std::make_unique<std::shared_ptr<Impl>>(std::move(group))](Impl* ends) mutable {
            if (ends->queue_->caller().in_child()) return static_cast<void>(group.release());
            ends->release();
          }};
}

// May run in a callback of one of the group's operations, on the thread that has the baton. Then the group is not idle,
// so release() does not call leave(), which would wait for this very thread.
void Group::Impl::release() {
  {
    const MutexLock lock(mutex_);
    if (left_ || !abandon()) return;
  }
  leave();
}

bool Group::Impl::abandon() {
  abandoned_ = true;
  bool done = queue_->abandon();
  for (const auto& [ranks, pair] : transfers_) {
    const MutexLock lock(pair->mutex_);
    done &= pair->abandon();
  }
  return done;
}

bool Group::Impl::is_over() const {
  return abandoned_ && idle();
}

bool Group::Impl::idle() const {
  const MutexLock lock(mutex_);
  return queue_->idle() && std::ranges::all_of(transfers_, [](const auto& pair) { return pair.second->idle(); });
}

void Group::Impl::end(bool by_exception) {
  if (queue_->caller().in_child()) return;
  if (by_exception && !idle()) {
    const MutexLock lock(mutex_);
    if (!left_ && context_.control) context_.control->leaves_by_exception();
  }
  leave();
}

// World::Impl::leave() sends the goodbye for the world itself, which is group 0. The world owns its group until that
// goodbye has been sent, and does not end while another thread is in this function. Allocates no memory.
void Group::Impl::leave() noexcept {
  const MutexLock leaving(leaving_);
  if (left_.exchange(true)) return;
  queue_->close();
  std::function<void()> when_leaving;
  {
    const MutexLock lock(mutex_);  // waits until the context's calls that began earlier have ended
    when_leaving = std::move(when_leaving_);
  }
  if (when_leaving) call_at_end(when_leaving);
  leave_transfers();
  say_goodbye();
  context_.forget(*this);
}

// Needs no lock, because no transfer can be added any more.
void Group::Impl::leave_transfers() noexcept {
  for (const auto& [ranks, pair] : transfers_) pair->leave();
}

// If `when_leaving` throws std::bad_alloc, the other members get the message that this rank cannot go on.
void Group::Impl::call_at_end(const std::function<void()>& when_leaving) {
  try {
    when_leaving();
  } catch (const std::bad_alloc&) {
    if (context_.control) context_.control->abort_without_memory();
  }
}

void Group::Impl::say_goodbye() {
  if (!context_.control) return context_.recorders->remove(group_->id);
  if (group_->id != 0) {
    if (!queue_->has_left()) context_.control->leave_group(group_->id, queue_->completed());
    context_.link_router->remove(group_->id);
  }
  links_->close();
}

}  // namespace anello
