// Implements the C API by calls of the C++ API: the world, groups, operations and work. Gradients and diagnosis are in
// c_api_training.cpp.
#include "rendezvous/c_api/given.hpp"

#include <new>

#include "rendezvous/init_through.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "ring/group/group_impl.hpp"

using anello::Error;
using anello::Group;
using anello::GroupAccess;
using anello::text;
using anello::group::OperationQueue;
using namespace anello::c_api;

namespace {

OperationQueue& collectives(Group& group) {
  return GroupAccess::queue(group);
}
auto sends(int to) {
  return [to](Group& group) -> OperationQueue& { return GroupAccess::sends(group, to); };
}
auto receives(int from) {
  return [from](Group& group) -> OperationQueue& { return GroupAccess::receives(group, from); };
}

template <class Queue>
anello_status refuse_call(anello_group* group, Queue queue, const char* reason) {
  return guarded([&] {
    Group& its = required(group, "group").group;
    queue(its).refused(&required(reason, "reason"));
  });
}

}  // namespace

const char* anello_version(void) {
  return anello::version().data();
}
const char* anello_status_name(anello_status status) {
  if (status == ANELLO_OK) return "ok";
  if (status == ANELLO_OUT_OF_MEMORY) return "out_of_memory";
  return name(one_of<anello::ErrorCode>(status)).data();
}
const char* anello_dtype_name(anello_dtype dtype) {
  return name(one_of<anello::DType>(dtype)).data();
}
const char* anello_op_name(anello_op op) {
  return name(one_of<anello::Op>(op)).data();
}
size_t anello_dtype_size(anello_dtype dtype) {
  return name(one_of<anello::DType>(dtype)) == "?" ? 0 : size_bytes(one_of<anello::DType>(dtype));
}
const char* anello_last_error(void) {
  return last_error.message.data();
}
int anello_last_error_rank(void) {
  return last_error.rank;
}

anello_status anello_init(const anello_config* config, anello_world** world) {
  return guarded([&] {
    required(world, "out parameter");
    const anello::rendezvous::Interruption interruption(asked_by(config));
    *world = new_world(anello::rendezvous::init_with([&] { return settings_of(config); }));
  });
}
anello_status anello_finish(anello_world* world) {
  return guarded([&] {
    if (!required(world, "world").own) refuse("the world belongs to an elastic job: call anello_elastic_finish");
    world->world.finish();
  });
}
anello_status anello_abort(anello_world* world, const char* reason) {
  return guarded([&] { required(world, "world").world.abort(view(reason)); });
}
anello_status anello_failure(const anello_world* world) {
  return guarded([&] {
    if (const auto failure = required(world, "world").world.failure()) throw *failure;
  });
}
void anello_world_free(anello_world* world) {
  if (world && world->own) delete world;
}
int anello_local_rank(const anello_world* world) {
  return of(world, "world", [](auto& its) { return its.world.local_rank(); });
}
int anello_local_size(const anello_world* world) {
  return of(world, "world", [](auto& its) { return its.world.local_size(); });
}
int anello_node_rank(const anello_world* world) {
  return of(world, "world", [](auto& its) { return its.world.node_rank(); });
}
int anello_node_count(const anello_world* world) {
  return of(world, "world", [](auto& its) { return its.world.node_count(); });
}
anello_status anello_host(const anello_world* world, int rank, const char** host) {
  return guarded([&] { required(host, "out parameter") = required(world, "world").world.host(rank).c_str(); });
}
anello_status anello_layout(const anello_world* world, const char** layout) {
  return guarded([&] { required(layout, "out parameter") = required(world, "world").layout.c_str(); });
}

anello_group* anello_world_group(anello_world* world) {
  return of(world, "world", [](auto& its) { return &its.all_ranks; });
}
anello_status anello_group_create(anello_group* group, const int* members, size_t count, anello_group** created) {
  return guarded([&] {
    required(created, "out parameter");
    if (count > 0 && !members) refuse("the list of members is NULL");
    Group made = required(group, "group").group.group(std::span(members, count));
    *created = new anello_group{std::move(made)};
  });
}
anello_status anello_group_split(anello_group* group, int colour, int key, anello_group** part) {
  return guarded([&] {
    required(part, "out parameter");
    *part = new anello_group{required(group, "group").group.split(colour, key)};
  });
}
void anello_group_free(anello_group* group) {
  delete group;
}
int anello_rank(const anello_group* group) {
  return of(group, "group", [](auto& its) { return its.group.rank(); });
}
int anello_size(const anello_group* group) {
  return of(group, "group", [](auto& its) { return its.group.size(); });
}
int anello_world_rank(const anello_group* group, int rank) {
  return of(group, "group", [rank](auto& its) {
    const auto members = its.group.members();
    return rank >= 0 && std::size_t(rank) < members.size() ? members[std::size_t(rank)] : -1;
  });
}
int anello_rank_of(const anello_group* group, int world_rank) {
  return of(group, "group", [world_rank](auto& its) { return its.group.rank_of(world_rank).value_or(-1); });
}

anello_status anello_average(anello_group* group, double value, double* mean) {
  return guarded([&] {
    required(mean, "out parameter");
    *mean = required(group, "group").group.average(value);
  });
}
anello_status anello_probe(anello_group* group, int from, int* arrived) {
  return guarded([&] { required(arrived, "out parameter") = required(group, "group").group.probe(from); });
}
anello_status anello_refuse(anello_group* group, const char* reason) {
  return refuse_call(group, collectives, reason);
}
anello_status anello_refuse_send(anello_group* group, int to, const char* reason) {
  return refuse_call(group, sends(to), reason);
}
anello_status anello_refuse_recv(anello_group* group, int from, const char* reason) {
  return refuse_call(group, receives(from), reason);
}
anello_status anello_work_wait(anello_work* work) {
  return guarded([&] { required(work, "work").work.wait(); });
}
anello_status anello_work_wait_for(anello_work* work, uint64_t limit_ms) {
  bool done = false;
  const anello_status status = guarded([&] { done = required(work, "work").work.wait_for(limit_of(limit_ms)); });
  if (status != ANELLO_OK || done) return status;
  return failed(ANELLO_TIMED_OUT, text("the work is not done after ", limit_ms, " ms"));
}
anello_status anello_wait_all(anello_work* const* works, size_t count) {
  return guarded([&] {
    if (count > 0 && !works) refuse("the list of works is NULL");
    std::vector<anello::Work> all;
    for (std::size_t k = 0; k < count; k++) all.push_back(required(works[k], "work").work);
    anello::wait_all(all);
  });
}
int anello_work_done(const anello_work* work) {
  return of(work, "work", [](auto& its) { return int(its.work.done()); });
}
anello_status anello_work_when_done(anello_work* work, anello_callback callback, void* context) {
  return guarded([&] { required(work, "work").work.when_done(call_of(callback, context)); });
}
void anello_work_free(anello_work* work) {
  delete work;
}

anello_status anello_allocate(size_t bytes, void** memory) {
  return guarded([&] {
    void*& out = required(memory, "out parameter");
    out = anello::allocate(bytes);
  });
}
void anello_deallocate(void* memory) {
  anello::deallocate(memory);
}
