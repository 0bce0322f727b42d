// The calls of the C API: anello_carry_out and its two siblings, which take any call as a record, and the short forms
// for each kind. A short form fills in the record.
#include <anello/gpu.h>

#include <optional>

#include "rendezvous/c_api/call.hpp"
#include "ring/group/group_impl.hpp"
#include "ring/group/scratch_list.hpp"

using anello::Group;
using anello::GroupAccess;
using anello::group::OperationQueue;
using Pieces = std::vector<anello::run::Buffer::Piece>;
using namespace anello::c_api;

namespace {

OperationQueue& queue_of(const Group& group, const anello_call& asked) {
  if (asked.kind == ANELLO_SEND) return GroupAccess::sends(group, asked.to);
  if (asked.kind == ANELLO_RECV) return GroupAccess::receives(group, asked.from);
  return GroupAccess::queue(group);
}

// If `work` is null, blocks until the operation is done. Otherwise starts the operation and gives its handle to the
// caller. If the call is refused, the group reports the reason to ranks that wait for this rank. This function is
// inlined into the short forms, so that `asked` need not be written to memory. Most calls have no list, and then use no
// memory for a list.
[[gnu::always_inline]] inline anello_status carry_out(anello_group* group, const anello_call& asked,
                                                      anello_work** work) {
  return guarded([&]() __attribute__((always_inline)) {
    const Group& its = required(group, "group").group;
    OperationQueue& queue = queue_of(its, asked);
    try {
      Pieces none;
      std::optional<anello::group::ScratchList<Pieces::value_type>> lent;
      if (asked.list || asked.kind == ANELLO_BROADCAST) lent.emplace();
      const anello::group::Call call =
          call_of(asked, GroupAccess::self(its), lent ? static_cast<Pieces&>(*lent) : none);
      if (!work) return anello::group::carry_out(queue, call);
      *work = new anello_work{GroupAccess::start(queue, call)};
    } catch (const std::exception& e) {
      queue.refused(e.what());
      throw;
    }
  });
}

anello_call known_call(const anello_call* call) {
  return known(&required(call, "call"), anello_call ANELLO_CALL_INIT);
}

// Makes the call for a list. NULL with a size of 0 is an empty list. It does not mean that the call has no list.
anello_call list_call(anello_kind kind, const anello_tensor* tensors, std::size_t count,
                      const anello_options* options) {
  static constexpr anello_tensor kNone{};
  return {.kind = kind, .options = options, .list = tensors || count > 0 ? tensors : &kNone, .list_size = count};
}
anello_call allreduce_list(const anello_tensor* tensors, std::size_t count, anello_op op,
                           const anello_options* options) {
  anello_call call = list_call(ANELLO_ALLREDUCE, tensors, count, options);
  call.op = op;
  return call;
}
anello_call broadcast_list(const anello_tensor* tensors, std::size_t count, int root, const anello_options* options) {
  anello_call call = list_call(ANELLO_BROADCAST, tensors, count, options);
  call.root = root;
  return call;
}

}  // namespace

anello_status anello_carry_out(anello_group* group, const anello_call* call, anello_work** work) {
  anello_call asked;
  const anello_status status = guarded([&] { asked = known_call(call); });
  return status == ANELLO_OK ? carry_out(group, asked, work) : status;
}
anello_status anello_gpu_carry_out(anello_gpu_group* gpus, const anello_call* call, CUstream_st* stream) {
  anello_call asked;
  const anello_status status = guarded([&] { asked = known_call(call); });
  return status == ANELLO_OK ? carry_out(gpus, asked, stream) : status;
}
anello_status anello_named_submit(anello_agenda* agenda, const char* name, const anello_call* call,
                                  const anello_named_options* options, anello_named** operation) {
  anello_call asked;
  const anello_status status = guarded([&] { asked = known_call(call); });
  return status == ANELLO_OK ? submit(agenda, name, asked, options, operation) : status;
}

anello_status anello_allreduce(anello_group* group, anello_input input, anello_tensor output, anello_op op,
                               const anello_options* options, anello_work** work) {
  return carry_out(group, {.kind = ANELLO_ALLREDUCE, .op = op, .options = options, .input = input, .output = output},
                   work);
}
anello_status anello_allreduce_list(anello_group* group, const anello_tensor* tensors, size_t count, anello_op op,
                                    const anello_options* options, anello_work** work) {
  return carry_out(group, allreduce_list(tensors, count, op, options), work);
}
anello_status anello_reduce(anello_group* group, anello_input input, anello_tensor output, int root, anello_op op,
                            const anello_options* options, anello_work** work) {
  return carry_out(
      group, {.kind = ANELLO_REDUCE, .op = op, .root = root, .options = options, .input = input, .output = output},
      work);
}
anello_status anello_broadcast(anello_group* group, anello_tensor tensor, int root, const anello_options* options,
                               anello_work** work) {
  return carry_out(group, {.kind = ANELLO_BROADCAST, .root = root, .options = options, .output = tensor}, work);
}
anello_status anello_broadcast_list(anello_group* group, const anello_tensor* tensors, size_t count, int root,
                                    const anello_options* options, anello_work** work) {
  return carry_out(group, broadcast_list(tensors, count, root, options), work);
}
anello_status anello_allgather(anello_group* group, anello_input input, anello_tensor output,
                               const anello_options* options, anello_work** work) {
  return carry_out(group, {.kind = ANELLO_ALLGATHER, .options = options, .input = input, .output = output}, work);
}
anello_status anello_gather(anello_group* group, anello_input input, anello_tensor output, int root,
                            const anello_options* options, anello_work** work) {
  return carry_out(group, {.kind = ANELLO_GATHER, .root = root, .options = options, .input = input, .output = output},
                   work);
}
anello_status anello_scatter(anello_group* group, anello_input input, anello_tensor output, int root,
                             const anello_options* options, anello_work** work) {
  return carry_out(group, {.kind = ANELLO_SCATTER, .root = root, .options = options, .input = input, .output = output},
                   work);
}
anello_status anello_reduce_scatter(anello_group* group, anello_input input, anello_tensor output, anello_op op,
                                    const anello_options* options, anello_work** work) {
  return carry_out(
      group, {.kind = ANELLO_REDUCE_SCATTER, .op = op, .options = options, .input = input, .output = output}, work);
}
anello_status anello_alltoall(anello_group* group, anello_input input, anello_tensor output,
                              const uint64_t* send_counts, const uint64_t* recv_counts, const anello_options* options,
                              anello_work** work) {
  return carry_out(group,
                   {.kind = ANELLO_ALLTOALL,
                    .send_counts = send_counts,
                    .recv_counts = recv_counts,
                    .options = options,
                    .input = input,
                    .output = output},
                   work);
}
anello_status anello_send(anello_group* group, anello_input tensor, int to, const anello_options* options,
                          anello_work** work) {
  return carry_out(group, {.kind = ANELLO_SEND, .to = to, .options = options, .input = tensor}, work);
}
anello_status anello_recv(anello_group* group, anello_tensor tensor, int from, const anello_options* options,
                          anello_work** work) {
  return carry_out(group, {.kind = ANELLO_RECV, .from = from, .options = options, .output = tensor}, work);
}
anello_status anello_barrier(anello_group* group, const anello_options* options, anello_work** work) {
  return carry_out(group, {.kind = ANELLO_BARRIER, .options = options}, work);
}

anello_status anello_gpu_allreduce(anello_gpu_group* gpus, anello_input input, anello_tensor output, anello_op op,
                                   CUstream_st* stream, const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_ALLREDUCE, .op = op, .options = options, .input = input, .output = output},
                   stream);
}
anello_status anello_gpu_allreduce_list(anello_gpu_group* gpus, const anello_tensor* tensors, size_t count,
                                        anello_op op, CUstream_st* stream, const anello_options* options) {
  return carry_out(gpus, allreduce_list(tensors, count, op, options), stream);
}
anello_status anello_gpu_reduce(anello_gpu_group* gpus, anello_input input, anello_tensor output, int root,
                                anello_op op, CUstream_st* stream, const anello_options* options) {
  return carry_out(
      gpus, {.kind = ANELLO_REDUCE, .op = op, .root = root, .options = options, .input = input, .output = output},
      stream);
}
anello_status anello_gpu_broadcast(anello_gpu_group* gpus, anello_tensor tensor, int root, CUstream_st* stream,
                                   const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_BROADCAST, .root = root, .options = options, .output = tensor}, stream);
}
anello_status anello_gpu_broadcast_list(anello_gpu_group* gpus, const anello_tensor* tensors, size_t count, int root,
                                        CUstream_st* stream, const anello_options* options) {
  return carry_out(gpus, broadcast_list(tensors, count, root, options), stream);
}
anello_status anello_gpu_allgather(anello_gpu_group* gpus, anello_input input, anello_tensor output,
                                   CUstream_st* stream, const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_ALLGATHER, .options = options, .input = input, .output = output}, stream);
}
anello_status anello_gpu_gather(anello_gpu_group* gpus, anello_input input, anello_tensor output, int root,
                                CUstream_st* stream, const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_GATHER, .root = root, .options = options, .input = input, .output = output},
                   stream);
}
anello_status anello_gpu_scatter(anello_gpu_group* gpus, anello_input input, anello_tensor output, int root,
                                 CUstream_st* stream, const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_SCATTER, .root = root, .options = options, .input = input, .output = output},
                   stream);
}
anello_status anello_gpu_reduce_scatter(anello_gpu_group* gpus, anello_input input, anello_tensor output, anello_op op,
                                        CUstream_st* stream, const anello_options* options) {
  return carry_out(
      gpus, {.kind = ANELLO_REDUCE_SCATTER, .op = op, .options = options, .input = input, .output = output}, stream);
}
anello_status anello_gpu_alltoall(anello_gpu_group* gpus, anello_input input, anello_tensor output,
                                  const uint64_t* send_counts, const uint64_t* recv_counts, CUstream_st* stream,
                                  const anello_options* options) {
  return carry_out(gpus,
                   {.kind = ANELLO_ALLTOALL,
                    .send_counts = send_counts,
                    .recv_counts = recv_counts,
                    .options = options,
                    .input = input,
                    .output = output},
                   stream);
}
anello_status anello_gpu_send(anello_gpu_group* gpus, anello_input tensor, int to, CUstream_st* stream,
                              const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_SEND, .to = to, .options = options, .input = tensor}, stream);
}
anello_status anello_gpu_recv(anello_gpu_group* gpus, anello_tensor tensor, int from, CUstream_st* stream,
                              const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_RECV, .from = from, .options = options, .output = tensor}, stream);
}
anello_status anello_gpu_exchange(anello_gpu_group* gpus, anello_input outgoing, int to, anello_tensor incoming,
                                  int from, CUstream_st* stream, const anello_options* options) {
  return carry_out(
      gpus,
      {.kind = ANELLO_EXCHANGE, .to = to, .from = from, .options = options, .input = outgoing, .output = incoming},
      stream);
}
anello_status anello_gpu_barrier(anello_gpu_group* gpus, CUstream_st* stream, const anello_options* options) {
  return carry_out(gpus, {.kind = ANELLO_BARRIER, .options = options}, stream);
}

anello_status anello_named_allreduce(anello_agenda* agenda, const char* name, const anello_array* inputs,
                                     const anello_array* outputs, size_t count, anello_op op,
                                     const anello_named_options* options, anello_named** operation) {
  return submit(agenda, name,
                {.kind = ANELLO_ALLREDUCE, .op = op, .inputs = inputs, .outputs = outputs, .arrays_size = count},
                options, operation);
}
anello_status anello_named_allgather(anello_agenda* agenda, const char* name, const anello_array* inputs, size_t count,
                                     const anello_named_options* options, anello_named** operation) {
  return submit(agenda, name, {.kind = ANELLO_ALLGATHER, .inputs = inputs, .arrays_size = count}, options, operation);
}
anello_status anello_named_broadcast(anello_agenda* agenda, const char* name, const anello_array* tensors, size_t count,
                                     int root, const anello_named_options* options, anello_named** operation) {
  return submit(agenda, name, {.kind = ANELLO_BROADCAST, .root = root, .inputs = tensors, .arrays_size = count},
                options, operation);
}
anello_status anello_named_alltoall(anello_agenda* agenda, const char* name, const anello_array* input,
                                    const uint64_t* splits, const anello_named_options* options,
                                    anello_named** operation) {
  return submit(agenda, name, {.kind = ANELLO_ALLTOALL, .send_counts = splits, .inputs = input, .arrays_size = 1},
                options, operation);
}
anello_status anello_named_reduce_scatter(anello_agenda* agenda, const char* name, const anello_array* inputs,
                                          size_t count, anello_op op, const anello_named_options* options,
                                          anello_named** operation) {
  return submit(agenda, name, {.kind = ANELLO_REDUCE_SCATTER, .op = op, .inputs = inputs, .arrays_size = count},
                options, operation);
}
anello_status anello_named_barrier(anello_agenda* agenda, const char* name, const anello_named_options* options,
                                   anello_named** operation) {
  return submit(agenda, name, {.kind = ANELLO_BARRIER}, options, operation);
}
