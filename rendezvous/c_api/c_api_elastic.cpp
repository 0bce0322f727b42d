// Implements the C API by calls of the C++ API: elastic jobs.
#include <memory>
#include <span>

#include "rendezvous/c_api/handles.hpp"
#include "rendezvous/protocol/interruption.hpp"

using namespace anello::c_api;
using anello::text;
using anello::elastic::EntryHash;
using anello::rendezvous::Interruption;

// `state` has no entries, because the program that uses the C API keeps its entries, and sends them itself.
struct anello_elastic {
  explicit anello_elastic(const anello_config* config)
      : interrupted(asked_by(config)), job(state, {}, settings_of(config)) {}
  const std::function<bool()> interrupted;
  anello::elastic::State state;
  anello::elastic::Job job;
  std::unique_ptr<anello_world> world;
};

namespace {

std::vector<EntryHash> entries_of(const anello_elastic_entry* entries, std::size_t count) {
  if (count > 0 && !entries) refuse("the list of entries is NULL");
  std::vector<EntryHash> all;
  for (const anello_elastic_entry& each : std::span(entries, count))
    all.push_back({&required(each.name, "name of an entry"), {each.high, each.low}});
  return all;
}

void give_list(const std::vector<int>& ours, const int*& list, std::size_t& size) {
  list = ours.data();
  size = ours.size();
}

}  // namespace

anello_status anello_elastic_join(const anello_config* config, anello_elastic** job) {
  return guarded([&] {
    required(job, "out parameter");
    const Interruption interruption(asked_by(config));
    *job = new anello_elastic(config);
  });
}
anello_status anello_elastic_enter(anello_elastic* job, anello_world** world) {
  return guarded([&] {
    required(world, "out parameter");
    anello_elastic& its = required(job, "job");
    const Interruption interruption(its.interrupted);
    its.world.reset();
    if (its.job.enter()) its.world = std::make_unique<anello_world>(its.job.world());
    *world = its.world.get();
  });
}
anello_status anello_elastic_begin(anello_elastic* job, const char* manifest) {
  return guarded([&] { required(job, "job").job.begin_synchronization(&required(manifest, "manifest")); });
}
anello_status anello_elastic_deliver(anello_elastic* job, const anello_tensor* tensors, size_t count) {
  return guarded([&] { required(job, "job").job.deliver(list_of(tensors, count)); });
}
anello_status anello_elastic_end(anello_elastic* job, const anello_elastic_entry* entries, size_t count,
                                 uint64_t bytes) {
  return guarded([&] { required(job, "job").job.end_synchronization(entries_of(entries, count), bytes); });
}
anello_status anello_elastic_hash(const void* data, size_t bytes, uint64_t* high, uint64_t* low) {
  return guarded([&] {
    required(high, "out parameter");
    required(low, "out parameter");
    if (bytes > 0 && !data) refuse("the data is NULL");
    const anello::elastic::Hash hash = anello::elastic::Hash::of({static_cast<const std::byte*>(data), bytes});
    *high = hash.high;
    *low = hash.low;
  });
}
anello_status anello_elastic_order(uint64_t seed, uint64_t epoch, uint32_t* order, size_t count) {
  return guarded([&] {
    if (count > UINT32_MAX) refuse(text("there can be ", UINT32_MAX, " samples at most, not ", count));
    if (count > 0) anello::sampling::order_of_epoch(seed, epoch, {&required(order, "list for the order"), count});
  });
}

anello_status anello_elastic_get_change(const anello_elastic* job, anello_elastic_change* change) {
  return guarded([&] {
    anello_elastic_change all =
        known(&required(change, "out parameter"), anello_elastic_change ANELLO_ELASTIC_CHANGE_INIT);
    const anello::elastic::Change& now = required(job, "job").job.change();
    all.generation = now.generation;
    all.rank = now.rank;
    all.size = now.size;
    all.revision = now.revision;
    give_list(now.sources, all.sources, all.sources_size);
    give_list(now.receivers, all.receivers, all.receivers_size);
    all.bytes = now.bytes;
    all.paused_ns = std::uint64_t(now.paused.count());
    all.reason = now.reason.c_str();
    give_back(all, *change);
  });
}
uint64_t anello_elastic_revision(const anello_elastic* job) {
  return of(job, "job", [](auto& its) { return its.state.revision(); });
}
int anello_elastic_holds(const anello_elastic* job) {
  return of(job, "job", [](auto& its) { return int(its.state.holds()); });
}
int anello_elastic_clean(const anello_elastic* job) {
  return of(job, "job", [](auto& its) { return int(its.state.clean()); });
}
int anello_elastic_change_is_planned(const anello_elastic* job) {
  return of(job, "job", [](auto& its) { return int(its.job.change_is_planned()); });
}
anello_status anello_elastic_commit_begin(anello_elastic* job) {
  return guarded([&] { required(job, "job").job.begin_commit(); });
}
anello_status anello_elastic_commit_end(anello_elastic* job, int* ends) {
  return guarded([&] {
    required(ends, "out parameter");
    anello_elastic& its = required(job, "job");
    const Interruption interruption(its.interrupted);
    *ends = int(its.job.end_commit());
  });
}
anello_status anello_elastic_compare(anello_elastic* job, const anello_elastic_entry* entries, size_t count) {
  return guarded([&] { required(job, "job").job.compare(entries_of(entries, count)); });
}
int anello_elastic_survives(const anello_elastic* job, anello_status status, int rank) {
  return of(job, "job", [&](auto& its) {
    return int(its.job.survives(anello::Error(one_of<anello::ErrorCode>(status), "", rank)));
  });
}
anello_status anello_elastic_finish(anello_elastic* job) {
  return guarded([&] {
    anello_elastic& its = required(job, "job");
    const Interruption interruption(its.interrupted);
    its.job.finish();
  });
}
void anello_elastic_free(anello_elastic* job) {
  delete job;
}
