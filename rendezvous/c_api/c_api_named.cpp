// Implements the C API of named operations by calls of the agenda's scheduler.
#include <anello/gpu.h>

#include "gpu/named_calls.hpp"
#include "rendezvous/c_api/call.hpp"
#include "rendezvous/c_api/dlpack.hpp"
#include "ring/agenda/scheduler.hpp"

using namespace anello::c_api;
using anello::text;
using anello::agenda::ArrayView;
using anello::agenda::NamedCall;
using anello::agenda::Verb;

struct anello_agenda {
  std::shared_ptr<anello::agenda::Scheduler> scheduler;
};
struct anello_named {
  std::shared_ptr<anello::agenda::Scheduler> scheduler;
  std::shared_ptr<anello::agenda::NamedOperation> operation;
};

static_assert(int(Verb::allreduce) == ANELLO_NAMED_ALLREDUCE && int(Verb::barrier) == ANELLO_NAMED_BARRIER);

namespace {

ArrayView array_of(const anello_array& array) {
  if (array.dimensions > 0 && !array.shape) refuse("the shape of a tensor is NULL");
  return {array.data, {array.shape, array.shape + array.dimensions}, one_of<anello::DType>(array.dtype)};
}

std::vector<ArrayView> arrays_of(const anello_array* arrays, std::size_t count) {
  if (count > 0 && !arrays) refuse("the list of tensors is NULL");
  std::vector<ArrayView> all;
  for (std::size_t k = 0; k < count; k++) all.push_back(array_of(arrays[k]));
  return all;
}

// Calls `make`. If `make` throws, reports this to the other ranks, because otherwise they would wait for an operation
// that this rank cannot submit.
template <class Make>
auto or_refuse(anello::agenda::Scheduler& scheduler, Verb verb, const char* name, Make make) {
  try {
    return make();
  } catch (const std::exception& e) {
    scheduler.refuse(view(name), verb, e.what());
    throw;
  }
}

// Submits the call that `make` returns. Sets the call's verb, name and options.
template <class Make>
anello_status submit_made(anello_agenda* agenda, Verb verb, const char* name, const anello_named_options* options,
                          anello_named** operation, Make make) {
  return guarded([&] {
    auto& scheduler = required(agenda, "agenda").scheduler;
    anello_named_options given = ANELLO_NAMED_OPTIONS_INIT;
    auto handle = std::make_unique<anello_named>();
    handle->scheduler = scheduler;
    NamedCall call = or_refuse(*scheduler, verb, name, [&] {
      required(operation, "out parameter");
      given = known(options, given);
      return make();
    });
    call.verb = verb;
    call.name = view(name);
    call.prescale = given.prescale;
    call.postscale = given.postscale;
    if (given.wire != 0) call.wire = one_of<anello::DType>(given.wire);
    if (given.on_gpu != 0) call.on_gpu = anello::agenda::OnGpu{given.device, static_cast<CUstream_st*>(given.stream)};
    handle->operation = scheduler->submit(std::move(call), given.waits != 0);
    *operation = handle.release();
  });
}

// Returns the part of a named call that the record has. `ranks`: the length of the lists of counts.
NamedCall named_call_of(const anello_call& asked, Verb verb, int ranks) {
  NamedCall call{.inputs = arrays_of(asked.inputs, asked.arrays_size),
                 .outputs = arrays_of(asked.outputs, asked.outputs ? asked.arrays_size : 0)};
  if (!call.outputs.empty() && verb != Verb::allreduce) refuse("outputs are for allreduce");
  if (anello::agenda::reduces(verb)) call.op = one_of<anello::Op>(asked.op);
  if (verb == Verb::broadcast) call.root = asked.root;
  if (asked.send_counts && verb != Verb::alltoall) refuse("splits are for alltoall");
  if (asked.send_counts) call.splits.assign(asked.send_counts, asked.send_counts + ranks);
  if (asked.options || asked.list || asked.list_size > 0 || asked.recv_counts || asked.input.count > 0 ||
      asked.output.count > 0)
    refuse("a named operation has inputs, outputs and its own options");
  return call;
}

// Returns the operation. Refuses an operation that is not done, because its outputs and other results do not exist yet.
anello::agenda::NamedOperation& complete(const anello_named* operation) {
  anello::agenda::NamedOperation& its = *required(operation, "operation").operation;
  if (!its.done()) refuse(text(its.key(), " is not done"));
  if (const auto error = its.error()) throw anello::Error(*error);
  return its;
}

const ArrayView& output_of(const anello_named* operation, std::size_t index) {
  const auto& outputs = complete(operation).outputs();
  if (index >= outputs.size()) refuse(text("there are ", outputs.size(), " outputs, but not number ", index));
  return outputs[index];
}

}  // namespace

anello_status anello_agenda_create(anello_group* group, anello_agenda** agenda) {
  return guarded([&] {
    auto& out = required(agenda, "out parameter");
    out = new anello_agenda{anello::agenda::Scheduler::make(required(group, "group").group)};
  });
}
anello_status anello_agenda_use_gpus(anello_agenda* agenda, anello_world* world) {
  return guarded([&] {
    anello::agenda::Scheduler& scheduler = *required(agenda, "agenda").scheduler;
    scheduler.use(anello::gpu::named_calls(required(world, "world").world, scheduler.ranks()));
  });
}
void anello_agenda_free(anello_agenda* agenda) {
  if (agenda) agenda->scheduler->close();
  delete agenda;
}

anello_status anello::c_api::submit(anello_agenda* agenda, const char* name, const anello_call& asked,
                                    const anello_named_options* options, anello_named** operation) {
  const std::optional<Verb> verb = anello::agenda::verb_of(one_of<anello::Kind>(asked.kind));
  if (!verb) return guarded([&] { refuse(text("kind ", asked.kind, " is not one of the named operations")); });
  return submit_made(agenda, *verb, name, options, operation,
                     [&] { return named_call_of(asked, *verb, agenda->scheduler->size()); });
}
anello_status anello_named_join(anello_agenda* agenda, const anello_named_options* options, anello_named** operation) {
  return submit_made(agenda, Verb::join, nullptr, options, operation, [] { return NamedCall{}; });
}
anello_status anello_named_refuse(anello_agenda* agenda, int verb, const char* name, const char* reason) {
  return guarded([&] {
    if (verb < ANELLO_NAMED_ALLREDUCE || verb > ANELLO_NAMED_BARRIER)
      refuse(text("verb must be one of anello_verb, not ", verb));
    required(agenda, "agenda").scheduler->refuse(view(name), one_of<Verb>(verb), &required(reason, "reason"));
  });
}
anello_status anello_named_wait(anello_named* operation, uint64_t limit_ms) {
  bool done = false;
  const anello_status status = guarded([&] {
    anello::group::Until until;
    if (limit_ms != UINT64_MAX) until = std::chrono::steady_clock::now() + limit_of(limit_ms);
    const anello_named& its = required(operation, "operation");
    done = its.scheduler->wait(*its.operation, until);
    if (!done) return;
    if (const auto error = its.operation->error()) throw anello::Error(*error);
  });
  if (status != ANELLO_OK || done) return status;
  return failed(ANELLO_TIMED_OUT, text("the operation is not done after ", limit_ms, " ms"));
}
int anello_named_done(anello_named* operation) {
  return of(operation, "operation", [](auto& its) { return int(its.scheduler->done(*its.operation)); });
}
anello_status anello_named_when_done(anello_named* operation, anello_callback callback, void* context) {
  return guarded([&] {
    const anello_named& its = required(operation, "operation");
    its.scheduler->when_done(its.operation, call_of(callback, context));
  });
}
anello_status anello_named_output(const anello_named* operation, size_t index, anello_array* output) {
  return guarded([&] {
    const ArrayView& array = output_of(operation, index);
    required(output, "out parameter") = {array.data, array.shape.data(), array.shape.size(), anello_dtype(array.dtype)};
  });
}
anello_status anello_named_dlpack(const anello_named* operation, size_t index, void** managed) {
  return guarded([&] {
    const ArrayView& array = output_of(operation, index);
    void*& out = required(managed, "out parameter");  // checked before the tensor is made, or the tensor would leak
    out = to_dlpack(array, operation->operation);
  });
}
anello_status anello_named_rows(const anello_named* operation, size_t index, const uint64_t** rows) {
  return guarded([&] {
    const auto& all = complete(operation).rows();
    if (index >= all.size()) refuse(text("there are rows for ", all.size(), " outputs, but not for number ", index));
    required(rows, "out parameter") = all[index].data();
  });
}
anello_status anello_named_last(const anello_named* operation, int* rank) {
  return guarded([&] {
    const auto& its = complete(operation);
    if (its.verb() != Verb::join) refuse(text(its.key(), " is not a join"));
    required(rank, "out parameter") = its.last();
  });
}
void anello_named_free(anello_named* operation) {
  if (operation) operation->scheduler->abandon(*operation->operation);
  delete operation;
}
anello_status anello_named_describe(const anello_named* operation, const char** line) {
  thread_local std::string last;
  return guarded([&] {
    const anello_named& its = required(operation, "operation");
    last = its.scheduler->describe(*its.operation);
    required(line, "out parameter") = last.c_str();
  });
}
