#include "trainer/python/tensorflow/process_sets.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/python/tensorflow/tf_types.hpp"

namespace anello::tensorflow {
namespace {

class Registry {
 public:
  void begin(const World& world) {
    const std::lock_guard lock(mutex_);
    world_ = world;
  }

  World world() {
    const std::lock_guard lock(mutex_);
    require_world();
    return *world_;
  }

  void add(int id, ProcessSet set) {
    std::unique_lock lock(mutex_);
    if (world_) set.rank = set.rank_of(world_->rank);
    remove(lock, id);
    entries_[id] = std::make_shared<Entry>(Entry{std::move(set)});
  }

  void remove(int id) {
    std::unique_lock lock(mutex_);
    remove(lock, id);
  }

  void end() {
    std::unique_lock lock(mutex_);
    world_.reset();
    while (!entries_.empty()) remove(lock, entries_.begin()->first);
  }

  std::shared_ptr<const ProcessSet> use(int id) {
    const std::lock_guard lock(mutex_);
    require_world();
    const auto found = entries_.find(id);
    if (found == entries_.end())
      throw Failure(Code::failed_precondition,
                    "the operation's process set is not registered: give it to init() or add_process_set(); if the set "
                    "was removed, build its functions again");
    const std::shared_ptr<Entry> entry = found->second;
    entry->users++;
    return {&entry->set, [this, entry](const ProcessSet*) { stop_using(*entry); }};
  }

 private:
  struct Entry {
    ProcessSet set;
    int users = 0;  // calls that use its agenda at the moment
  };

  void require_world() const {
    if (!world_) throw Failure(Code::failed_precondition, "Horovod has not been initialized; use hvd.init().");
  }

  // Counts callers instead of holding a lock during their calls: submitting an operation can end another operation, and
  // TensorFlow may then run the next kernel on the same thread.
  void remove(std::unique_lock<std::mutex>& lock, int id) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    const auto entry = found->second;
    entries_.erase(found);
    unused_.wait(lock, [&] { return entry->users == 0; });
  }

  void stop_using(Entry& entry) {
    const std::lock_guard lock(mutex_);
    if (--entry.users == 0) unused_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable unused_;
  std::optional<World> world_;
  std::map<int, std::shared_ptr<Entry>> entries_;
};

// The registry is never freed: TensorFlow's threads may still run when the process ends.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

}  // namespace

int ProcessSet::rank_of(int world_rank) const {
  const auto found = std::ranges::find(members, world_rank);
  return found == members.end() ? -1 : int(found - members.begin());
}

World world() {
  return registry().world();
}

std::shared_ptr<const ProcessSet> process_set(int id) {
  return registry().use(id);
}

std::shared_ptr<const ProcessSet> own_process_set(int id) {
  auto set = registry().use(id);
  if (!set->agenda)
    throw Failure(Code::invalid_argument, "this process is not one of the ranks of the operation's process set");
  return set;
}

}  // namespace anello::tensorflow

using anello::tensorflow::registry;

void anello_tensorflow_begin_world(int rank, int size, int local_rank, int local_size) {
  registry().begin({rank, size, local_rank, local_size});
}

void anello_tensorflow_add_process_set(int id, anello_agenda* agenda, int size, const int* members) {
  registry().add(id, {agenda, {members, members + size}});
}

void anello_tensorflow_remove_process_set(int id) {
  registry().remove(id);
}

void anello_tensorflow_end_world() {
  registry().end();
}
