// A world from its beginning to its end; the collectives are in ring/group/collectives.cpp.
#include <anello/world.hpp>
#include <new>
#include <utility>

#include "ring/algorithms/tuning_table.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"
#include "ring/world/alive_worlds_impl.hpp"
#include "ring/world/world_impl.hpp"

namespace anello {
namespace {
constexpr std::chrono::milliseconds kLogLimit{200};
}

World::World(std::unique_ptr<Impl> impl) : Group(impl->all_ranks()), impl_(std::move(impl)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&& other) noexcept {
  if (this == &other) return *this;
  const World ends = std::move(*this);
  Group::operator=(std::move(other));
  impl_ = std::move(other.impl_);
  return *this;
}
World::~World() {
  if (!impl_) return;
  // A child that fork() made does not have the world's threads, and the world belongs to the parent.
  if (impl_->in_child() || Impl::aborted_by_exit())
    static_cast<void>(impl_.release());
  else
    impl_->note_exception();
}

int World::local_rank() const {
  return impl_->identity().local_rank;
}
int World::local_size() const {
  return impl_->identity().local_size;
}
int World::node_rank() const {
  return impl_->identity().node_rank;
}
int World::node_count() const {
  return impl_->identity().node_count;
}
const std::string& World::host(int rank) const {
  return impl_->host(rank);
}
std::string World::layout() const {
  return algorithms::layout(impl_->facts());
}

void World::finish() {
  if (impl_->tracing().on()) impl_->tracing().try_to([this] { stop_timeline(); }, *this);
  impl_->finish();
}
void World::start_timeline(const std::string& path) {
  impl_->tracing().start(*this, path);
}
void World::stop_timeline() {
  impl_->tracing().stop(*this, host(rank()));
}
Counters World::counters() const {
  impl_->check_process();
  return impl_->diagnosis().counters();
}
void World::write_flight(const std::string& path) const {
  impl_->check_process();
  impl_->diagnosis().write_flight(path, "the program asked for it");
}

Phase::Phase(const World& world, std::string_view name)
    : timeline_(world.impl_->tracing().on() ? &world.impl_->tracing().timeline() : nullptr) {
  if (!timeline_) return;
  name_ = name;
  begin_ = trace::ticks();
}
Phase::~Phase() {
  if (timeline_) timeline_->add(name_, begin_, trace::ticks());
}

// If this runs in a callback of the world's own work, leave() would wait for that callback itself. So
// check_no_callback() throws, and the process ends, because the exception leaves a destructor.
World::Impl::~Impl() {
  if (all_ranks_ && !left_) group::CallerChecks::check_no_callback();
  leave();
}

const std::string& World::Impl::host(int rank) const {
  if (rank < 0 || std::size_t(rank) >= places_.hosts.size())
    group::refuse("host", text("rank ", rank, " is not in this world of ", places_.hosts.size()));
  return places_.hosts[std::size_t(rank)];
}

void World::Impl::check_process() const {
  all_ranks_->queue().caller().check_process();
}

void World::Impl::abort(std::string_view reason, ErrorCode code) {
  const int rank = identity_.rank;
  try {
    const std::string why = text("rank ", rank, " on ", identity_.host, " ended the world: ", reason);
    if (control_) return control_->abort({code, rank, why});
    all_ranks_->queue().end({code, why, rank});
    diagnosis_.failed({code, rank, why});
  } catch (const std::bad_alloc&) {
    if (!control_) throw;
    control_->abort_without_memory();
  }
}

void World::Impl::finish() {
  all_ranks_->queue().run({.kind = Kind::barrier, .name = "finish"});
  all_ranks_->finish();
  leave();
}

// Leaves the groups before the world, so that other ranks get the number of completed operations of each group.
void World::Impl::leave() {
  std::vector<std::shared_ptr<Group::Impl>> groups;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(left_, true)) return;
    groups = std::move(groups_);
  }
  Alive::remove(*this);
  for (const auto& group : groups) group->leave();
  if (all_ranks_) all_ranks_->leave();
  if (progress_thread_) progress_thread_->stop();
  if (control_ && all_ranks_) control_->leave(all_ranks_->completed());
  if (event_loop_) event_loop_->stop();
  save_records();
}

// Saves the timeline and the log.
void World::Impl::save_records() noexcept {
  try {
    save_timeline();
  } catch (const std::bad_alloc&) {  // there is no memory for a message either
  }
  flush_log(kLogLimit);
}

void World::Impl::save_timeline() {
  try {
    if (timeline_collector_.on()) timeline_collector_.save_own(identity_.rank, identity_.host);
  } catch (const std::exception& e) {
    log(Severity::warning, text("this rank's part of the timeline is lost: ", e.what()));
  }
}

}  // namespace anello
