/* Anello for C, with tensors in GPU memory: the same as gpu.hpp and gpu_gradients.hpp for C++. The conventions, types
 * and options are those of anello.h.
 *
 * A `struct CUstream_st*` is a cudaStream_t, or NULL for the legacy default stream of this rank's GPU. A call waits for
 * the work that was queued on the stream before it; work that is queued later sees the result, and the host may read it
 * after anello_gpu_synchronize. A call returns when everything is queued; its tensors are borrowed until the queued
 * work is done. gpu.hpp describes how long queueing takes, what can be captured into a CUDA graph, and how NCCL's
 * results differ.
 *
 * In one call either all ranks give tensors in the memory of their own GPU, or all give tensors in host memory. For
 * host memory the call synchronizes the stream, and then does the same as the call of anello.h. Only one thread at a
 * time may use an anello_gpu_group.
 * Errors are those of anello.h, and ANELLO_DEVICE: a call on the GPU failed. After it the world has failed, except
 * where this header says otherwise. ANELLO_UNSUPPORTED and ANELLO_INVALID_ARGUMENT change nothing.
 */
#ifndef ANELLO_GPU_H
#define ANELLO_GPU_H
#include <anello/anello.h>

ANELLO_API_BEGIN
#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
typedef struct anello_gpu_group anello_gpu_group;

typedef struct {
  size_t struct_size;
  anello_group* ranks; /* the ranks that take part; all of them make the call; NULL: all ranks of the world */
  int device;          /* the number of the GPU among those that the process sees; -1: this rank's number on its host,
                          modulo the number of GPUs */
} anello_gpu_options;
#define ANELLO_GPU_OPTIONS_INIT \
  { sizeof(anello_gpu_options), NULL, -1 }

/* 1 if the plugin for GPU memory is installed, otherwise 0; anello_last_error then returns what is missing. Does not
 * look for a GPU, because that would start CUDA. */
int anello_gpu_available(void);

/* Loads CUDA and NCCL, and chooses the backend that moves tensors. All ranks call this. Blocks until all have called,
 * for at most ANELLO_START_TIMEOUT. Returns on all ranks: ANELLO_UNSUPPORTED if one of them lacks something, with what
 * it lacks; ANELLO_CONFIGURATION if ANELLO_GPU_BACKEND asks for a backend that is not possible. Free the world after
 * the anello_gpu_group. */
anello_status anello_gpu_create(anello_world* world, const anello_gpu_options* options, anello_gpu_group** gpus);
/* Like anello_group_split. */
anello_status anello_gpu_split(anello_gpu_group* gpus, int colour, int key, anello_gpu_group** part);
/* Waits up to five seconds for queued work, then aborts it and logs a warning. */
void anello_gpu_free(anello_gpu_group* gpus);
int anello_gpu_device(const anello_gpu_group* gpus);          /* the number of this rank's GPU */
const char* anello_gpu_backend(const anello_gpu_group* gpus); /* "single", "nccl" or "staged" */
const char* anello_gpu_reason(const anello_gpu_group* gpus);  /* why this backend was chosen, in words */
/* Returns the group of these ranks for host memory. It belongs to `gpus`: do not free it. */
anello_group* anello_gpu_ranks(anello_gpu_group* gpus);

/* Like the functions of anello.h with similar names, but queued on a stream. */

anello_status anello_gpu_allreduce(anello_gpu_group* gpus, anello_input input, anello_tensor output, anello_op op,
                                   struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_allreduce_list(anello_gpu_group* gpus, const anello_tensor* tensors, size_t count,
                                        anello_op op, struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_reduce(anello_gpu_group* gpus, anello_input input, anello_tensor output, int root,
                                anello_op op, struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_broadcast(anello_gpu_group* gpus, anello_tensor tensor, int root, struct CUstream_st* stream,
                                   const anello_options* options);
anello_status anello_gpu_broadcast_list(anello_gpu_group* gpus, const anello_tensor* tensors, size_t count, int root,
                                        struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_allgather(anello_gpu_group* gpus, anello_input input, anello_tensor output,
                                   struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_gather(anello_gpu_group* gpus, anello_input input, anello_tensor output, int root,
                                struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_scatter(anello_gpu_group* gpus, anello_input input, anello_tensor output, int root,
                                 struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_reduce_scatter(anello_gpu_group* gpus, anello_input input, anello_tensor output, anello_op op,
                                        struct CUstream_st* stream, const anello_options* options);
anello_status anello_gpu_alltoall(anello_gpu_group* gpus, anello_input input, anello_tensor output,
                                  const uint64_t* send_counts, const uint64_t* recv_counts, struct CUstream_st* stream,
                                  const anello_options* options);
anello_status anello_gpu_send(anello_gpu_group* gpus, anello_input tensor, int to, struct CUstream_st* stream,
                              const anello_options* options);
anello_status anello_gpu_recv(anello_gpu_group* gpus, anello_tensor tensor, int from, struct CUstream_st* stream,
                              const anello_options* options);
/* Sends to peer `to` and at the same time receives from peer `from`, which may be a different rank. Two ranks that both
 * send before they receive may wait for each other for ever; with this call they do not. */
anello_status anello_gpu_exchange(anello_gpu_group* gpus, anello_input outgoing, int to, anello_tensor incoming,
                                  int from, struct CUstream_st* stream, const anello_options* options);

/* Queues any call, like the function for its kind. See anello_carry_out. */
anello_status anello_gpu_carry_out(anello_gpu_group* gpus, const anello_call* call, struct CUstream_st* stream);

/* Blocks until everything that was queued on the stream is done. If the world has failed, or fails during this call,
 * returns the world's failure; the contents of the tensors are then undefined. */
anello_status anello_gpu_synchronize(anello_gpu_group* gpus, struct CUstream_st* stream);
/* Blocks until all work is done that any rank queued on its stream before this call. */
anello_status anello_gpu_barrier(anello_gpu_group* gpus, struct CUstream_st* stream, const anello_options* options);

/* Memory of this rank's GPU that is registered with NCCL: if all ranks pass such memory to a call, NCCL's kernels and
 * the network can reach it directly, without copies in NCCL's own buffers. anello_gpu_allocate makes memory that NCCL
 * can reach best; anello_gpu_register registers the program's own memory, for example from cudaMalloc. In a group of
 * one rank nothing is registered. Neither function communicates. Both return ANELLO_UNSUPPORTED in larger groups if the
 * backend is not "nccl", or NCCL is older than 2.19, and ANELLO_DEVICE if NCCL refuses; the world then goes on. */
typedef struct anello_gpu_memory anello_gpu_memory;
anello_status anello_gpu_allocate(anello_gpu_group* gpus, size_t bytes, anello_gpu_memory** memory);
anello_status anello_gpu_register(anello_gpu_group* gpus, void* data, size_t bytes, anello_gpu_memory** memory);
void* anello_gpu_memory_data(const anello_gpu_memory* memory);
/* Ends the registration, and frees memory that anello_gpu_allocate made. No queued work may use the memory any more.
 * The world must not have been freed, but `gpus` may have been. */
void anello_gpu_memory_free(anello_gpu_memory* memory);

/* Gradients in GPU memory, averaged while the backward pass is still being queued: like the anello_gradients of
 * anello.h, except that weighted, tune_buckets, error_feedback and max_norm are ANELLO_UNSUPPORTED. The gradients are
 * made on `stream`; announce a gradient when the last kernel that makes it is queued. Work that is queued on the stream
 * after anello_gpu_gradients_finish sees the averages. Free them before `gpus`. */
typedef struct anello_gpu_gradients anello_gpu_gradients;
anello_status anello_gpu_gradients_create(anello_gpu_group* gpus, const anello_gradient* list, size_t count,
                                          struct CUstream_st* stream, const anello_gradient_options* options,
                                          anello_gpu_gradients** gradients);
anello_status anello_gpu_gradients_begin(anello_gpu_gradients* gradients, double factor);
anello_status anello_gpu_gradients_ready(anello_gpu_gradients* gradients, size_t gradient);
anello_status anello_gpu_gradients_finish(anello_gpu_gradients* gradients, anello_step_stats* stats);
void anello_gpu_gradients_free(anello_gpu_gradients* gradients);

/* From now on the tensors of an agenda's allreduces and broadcasts may be in the memory of this rank's GPU, if the
 * options of the call say so. All ranks of the agenda's group call this once. It does not communicate; CUDA and NCCL
 * are loaded by the first call with such tensors. Ranks may submit in any order: a thread gives the operations to an
 * anello_gpu_group in the order that the ranks agree on. An operation waits for the work that is queued on its stream
 * when it is submitted, and is done when its results are complete, for the host and for all streams.
 *
 * All such tensors of a rank must be on one GPU: the GPU of its first tensor, or the GPU that it gives to
 * anello_named_join. If a tensor is on another GPU, or integers have factors, calls return ANELLO_INVALID_ARGUMENT. If
 * a rank lacks the plugin, its calls return ANELLO_UNSUPPORTED, and the other ranks wait for it. If it lacks anything
 * else, operations return ANELLO_UNSUPPORTED on all ranks, and the world goes on.
 *
 * If the agenda has all ranks of the world, NCCL carries its operations, if NCCL can be used. If the agenda has only
 * some ranks, its operations go through host memory, because NCCL needs one order of all its calls on a GPU. For the
 * same reason, neither a second agenda of all ranks nor the program's own calls to NCCL may be in use at the same time.
 * Free the agenda before `world`. */
anello_status anello_agenda_use_gpus(anello_agenda* agenda, anello_world* world);

#ifdef __cplusplus
}
#endif
ANELLO_API_END
#endif
