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

// A set and the number of kernels that use its agenda now.
struct Entry {
  ProcessSet set;
  int users = 0;
};

struct Registry {
  std::mutex mutex;
  std::condition_variable unused;
  std::optional<World> world;
  std::map<int, std::shared_ptr<Entry>> entries;
};

// Never freed: threads of TensorFlow's may still run when the process ends.
Registry& registry() {
  static auto* const all = new Registry;
  return *all;
}

void require_world() {
  if (!registry().world) throw Failure(Code::failed_precondition, "Horovod has not been initialized; use hvd.init().");
}

// A thread may use a set in the midst of a use: submitting can end another operation, and run the kernel after it.
void remove(std::unique_lock<std::mutex>& lock, int id) {
  const auto found = registry().entries.find(id);
  if (found == registry().entries.end()) return;
  const auto entry = found->second;
  registry().entries.erase(found);
  registry().unused.wait(lock, [&] { return entry->users == 0; });
}

void stop_using(Entry* entry) {
  const std::lock_guard lock(registry().mutex);
  if (--entry->users == 0) registry().unused.notify_all();
}

}  // namespace

int ProcessSet::rank_of(int world_rank) const {
  const auto found = std::ranges::find(members, world_rank);
  return found == members.end() ? -1 : int(found - members.begin());
}

World world() {
  const std::lock_guard lock(registry().mutex);
  require_world();
  return *registry().world;
}

std::shared_ptr<const ProcessSet> process_set(int id) {
  const std::lock_guard lock(registry().mutex);
  require_world();
  const auto found = registry().entries.find(id);
  if (found == registry().entries.end())
    throw Failure(Code::failed_precondition,
                  "process set " + std::to_string(id) + " is not registered: give it to init() or add_process_set()");
  const std::shared_ptr<Entry> entry = found->second;
  entry->users++;
  return {&entry->set, [entry](const ProcessSet*) { stop_using(entry.get()); }};
}

std::shared_ptr<const ProcessSet> own_process_set(int id) {
  auto set = process_set(id);
  if (!set->agenda)
    throw Failure(Code::failed_precondition,
                  "this process is not one of the ranks of process set " + std::to_string(id));
  return set;
}

}  // namespace anello::tensorflow

using namespace anello::tensorflow;

void anello_tensorflow_begin_world(int rank, int size, int local_rank, int local_size) {
  const std::lock_guard lock(registry().mutex);
  registry().world = World{rank, size, local_rank, local_size};
}

void anello_tensorflow_add_process_set(int id, anello_agenda* agenda, int size, const int* members) {
  auto entry = std::make_shared<Entry>(Entry{{agenda, {members, members + size}}});
  std::unique_lock lock(registry().mutex);
  if (registry().world) entry->set.rank = entry->set.rank_of(registry().world->rank);
  remove(lock, id);
  registry().entries[id] = std::move(entry);
}

void anello_tensorflow_remove_process_set(int id) {
  std::unique_lock lock(registry().mutex);
  remove(lock, id);
}

void anello_tensorflow_end_world() {
  std::unique_lock lock(registry().mutex);
  registry().world.reset();
  while (!registry().entries.empty()) remove(lock, registry().entries.begin()->first);
}
