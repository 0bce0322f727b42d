// A world from its beginning to its end; the verbs are in verbs.cpp.
#include <anello/world.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/plan/table.hpp"
#include "ring/world_impl.hpp"

namespace anello {
namespace {
constexpr std::chrono::milliseconds kGoodbyeLimit{500};
}

World::World(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

int World::rank() const {
  return impl_->identity().rank;
}
int World::size() const {
  return impl_->identity().size;
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
  return anello::layout(impl_->facts());
}

void World::abort(std::string_view reason) {
  impl_->abort(reason);
}
void World::finish() {
  impl_->finish();
}

World::Impl::~Impl() {
  leave();
}

const std::string& World::Impl::host(int rank) const {
  if (rank < 0 || std::size_t(rank) >= hosts_.size())
    refuse("host", text("rank ", rank, " is not in this world of ", hosts_.size()));
  return hosts_[std::size_t(rank)];
}

Communicator& World::Impl::communicator() {
  if (finished_) refuse("world", "used after finish()");
  return *communicator_;
}

void World::Impl::abort(std::string_view reason) {
  const int rank = identity_.rank;
  const std::string why = text("rank ", rank, " on ", identity_.host, " ended the world: ", reason);
  if (control_)
    control_->abort({Code::aborted, rank, why});
  else
    communicator_->end({Code::aborted, why, rank});
}

void World::Impl::finish() {
  communicator().run({.kind = Kind::barrier, .name = "finish"});
  finished_ = true;
  leave();
}

void World::Impl::leave() {
  if (communicator_) communicator_->close();
  if (!background_ || std::exchange(left_, true)) return;
  if (control_ && communicator_) control_->leave(communicator_->completed(), kGoodbyeLimit);
  background_->stop();
}

}  // namespace anello
