/* Anello for C, and for bindings in other languages.
 *
 * Conventions:
 *  1. What can fail returns an anello_status: ANELLO_OK, or why not. Then anello_last_error() is one line that names the
 *     culprit and the remedy, and anello_last_error_rank() the rank at fault, or -1; both of the calling thread's last
 *     failure.
 *  2. Handles are opaque. What a call gives through an out parameter belongs to the caller, who frees it once; NULL may
 *     be freed. An out parameter is untouched if the call fails.
 *  3. Tensors are views: memory, a number of elements, a type. They are borrowed until the call returns, or, of calls
 *     that end in _async, until the work is done. All else that is passed is borrowed until the call returns.
 *  4. In place means that input and output are the same memory; otherwise they do not overlap. Where both stand for the
 *     whole (allreduce, reduce), pass the same pointer twice.
 *  5. A struct of options or settings begins with its own size, which the ..._init macro or function sets; it may grow at
 *     its end. A pointer to one may be NULL: the defaults.
 *  6. Any thread may call. A blocking call blocks its thread only. Order and errors are as said in group.hpp.
 *  7. Strings are UTF-8 and end with a zero byte. Those that are returned belong to the library: names for ever, others
 *     as long as their handle, the last error until the thread's next failure.
 */
#ifndef ANELLO_ANELLO_H
#define ANELLO_ANELLO_H
#include <anello/export.h>
#include <stddef.h>
#include <stdint.h>

ANELLO_API_BEGIN
#ifdef __cplusplus
extern "C" {
#endif

/* The codes of anello::Error; values never change. */
typedef enum {
  ANELLO_OK = 0,
  ANELLO_INVALID_ARGUMENT = 1,
  ANELLO_CONFIGURATION = 2,
  ANELLO_UNSUPPORTED = 3,
  ANELLO_FILE = 4,
  ANELLO_NETWORK = 5,
  ANELLO_PROTOCOL = 6,
  ANELLO_UNAUTHORIZED = 7,
  ANELLO_RENDEZVOUS = 8,
  ANELLO_MISMATCH = 9,
  ANELLO_RANK_DEAD = 10,
  ANELLO_RANK_LEFT = 11,
  ANELLO_ABORTED = 12,
  ANELLO_TIMED_OUT = 13,
  ANELLO_RANK_SILENT = 14,
  ANELLO_DIVERGED = 15,
  ANELLO_DEVICE = 16,
  ANELLO_OUT_OF_MEMORY = 100
} anello_status;

typedef enum {
  ANELLO_F16 = 1,
  ANELLO_BF16,
  ANELLO_F32,
  ANELLO_F64,
  ANELLO_I8,
  ANELLO_U8,
  ANELLO_I16,
  ANELLO_U16,
  ANELLO_I32,
  ANELLO_U32,
  ANELLO_I64,
  ANELLO_U64,
  ANELLO_BOOL
} anello_dtype;

typedef enum {
  ANELLO_SUM = 1,
  ANELLO_AVERAGE,
  ANELLO_MIN,
  ANELLO_MAX,
  ANELLO_PRODUCT,
  ANELLO_BIT_AND,
  ANELLO_BIT_OR,
  ANELLO_BIT_XOR
} anello_op;

typedef struct anello_world anello_world;
typedef struct anello_group anello_group;
typedef struct anello_work anello_work;

/* What is only read may be const where it comes from: an input is never written. */
typedef struct {
  const void* data;
  size_t count;
  anello_dtype dtype;
} anello_input;
typedef struct {
  void* data;
  size_t count;
  anello_dtype dtype;
} anello_tensor;

/* As anello::Options, PartOptions and ReduceOptions: see group.hpp. What a call has no use for must be as it was
 * initialised. */
typedef struct {
  size_t struct_size;
  const char* name;       /* for errors and diagnostics; NULL: none */
  const char* algorithm;  /* allreduce: forced; NULL: as set */
  int64_t slab_bytes;     /* reductions: forced; -1: as set */
  int wire;               /* reductions: ANELLO_F16 or ANELLO_BF16 on the wire; 0: as they are */
  double prescale, postscale;
  const uint64_t* counts; /* calls with a part for every rank: one for each; NULL: equal parts */
  size_t counts_size;     /* how many there are */
} anello_options;
#define ANELLO_OPTIONS_INIT \
  { sizeof(anello_options), NULL, NULL, -1, 0, 1.0, 1.0, NULL, 0 }

/* Settings that stand above the environment's: "ANELLO_RANK=3", ... */
typedef struct {
  size_t struct_size;
  const char* const* settings;
  size_t settings_size;
} anello_config;
#define ANELLO_CONFIG_INIT \
  { sizeof(anello_config), NULL, 0 }

const char* anello_version(void); /* "0.1.0" */
const char* anello_status_name(anello_status status);
const char* anello_dtype_name(anello_dtype dtype); /* "f32" */
const char* anello_op_name(anello_op op);          /* "sum" */
size_t anello_dtype_size(anello_dtype dtype);      /* bytes of an element; 0 if there is no such type */
const char* anello_last_error(void);
int anello_last_error_rank(void);

/* The world. anello_init blocks until all ranks are there; anello_finish until all have called it. To free a world that
 * is not finished is to leave it. */
anello_status anello_init(const anello_config* config, anello_world** world);
anello_status anello_finish(anello_world* world);
anello_status anello_abort(anello_world* world, const char* reason);
void anello_world_free(anello_world* world);
int anello_local_rank(const anello_world* world);
int anello_local_size(const anello_world* world);
int anello_node_rank(const anello_world* world);
int anello_node_count(const anello_world* world);
anello_status anello_host(const anello_world* world, int rank, const char** host);
anello_status anello_layout(const anello_world* world, const char** layout); /* "4 1 memory shared": see world.hpp */

/* Groups. The world's own belongs to the world, and is not to be freed. */
anello_group* anello_world_group(anello_world* world);
anello_status anello_group_create(anello_group* group, const int* members, size_t count, anello_group** created);
anello_status anello_group_split(anello_group* group, int colour, int key, anello_group** part);
void anello_group_free(anello_group* group);
int anello_rank(const anello_group* group);
int anello_size(const anello_group* group);
int anello_world_rank(const anello_group* group, int rank); /* -1 if there is no such rank */
int anello_rank_of(const anello_group* group, int world_rank); /* -1 if it is no member */

/* Collectives. With a `work`, the call returns at once and the handle is the caller's; with NULL it blocks. */
anello_status anello_allreduce(anello_group* group, anello_input input, anello_tensor output, anello_op op,
                               const anello_options* options, anello_work** work);
anello_status anello_allreduce_list(anello_group* group, const anello_tensor* tensors, size_t count, anello_op op,
                                    const anello_options* options, anello_work** work);
anello_status anello_reduce(anello_group* group, anello_input input, anello_tensor output, int root, anello_op op,
                            const anello_options* options, anello_work** work);
anello_status anello_broadcast(anello_group* group, anello_tensor tensor, int root, const anello_options* options,
                               anello_work** work);
anello_status anello_broadcast_list(anello_group* group, const anello_tensor* tensors, size_t count, int root,
                                    const anello_options* options, anello_work** work);
anello_status anello_allgather(anello_group* group, anello_input input, anello_tensor output,
                                const anello_options* options, anello_work** work);
anello_status anello_gather(anello_group* group, anello_input input, anello_tensor output, int root,
                            const anello_options* options, anello_work** work);
anello_status anello_scatter(anello_group* group, anello_input input, anello_tensor output, int root,
                             const anello_options* options, anello_work** work);
anello_status anello_reduce_scatter(anello_group* group, anello_input input, anello_tensor output, anello_op op,
                                    const anello_options* options, anello_work** work);
/* Equal parts, if send_counts and recv_counts are NULL; else as many counts as the group has ranks. */
anello_status anello_alltoall(anello_group* group, anello_input input, anello_tensor output,
                                const uint64_t* send_counts, const uint64_t* recv_counts,
                                const anello_options* options, anello_work** work);
anello_status anello_send(anello_group* group, anello_input tensor, int to, const anello_options* options,
                          anello_work** work);
anello_status anello_recv(anello_group* group, anello_tensor tensor, int from, const anello_options* options,
                          anello_work** work);
anello_status anello_barrier(anello_group* group, const anello_options* options, anello_work** work);

/* Work. Waiting gives what the blocking call would have given. With a limit in milliseconds: ANELLO_TIMED_OUT if it is
 * not done by then. The callback is called once, from whichever thread moves the last byte, or at once if it is done; it
 * may neither block nor wait; `message` is NULL if all went well, and lives as long as the callback runs. */
typedef void (*anello_callback)(void* context, anello_status status, const char* message);
anello_status anello_work_wait(anello_work* work);
anello_status anello_work_wait_for(anello_work* work, uint64_t limit_ms);
int anello_work_done(const anello_work* work);
anello_status anello_work_when_done(anello_work* work, anello_callback callback, void* context);
void anello_work_free(anello_work* work); /* the operation goes on */

/* Gradients: see gradients.hpp. They travel in buckets while the backward pass runs. All ranks create them with the same
 * list; then, each step: begin, ready for each gradient as it is complete, finish, which blocks. */
typedef enum { ANELLO_COMBINE_AVERAGE = 0, ANELLO_COMBINE_SUM = 1, ANELLO_COMBINE_WEIGHTED = 2 } anello_combine;
typedef struct {
  const char* name;
  anello_tensor tensor;  /* borrowed as long as the handle lives */
  const uint64_t* shape; /* compared between ranks; NULL: none */
  size_t dimensions;
} anello_gradient;
typedef struct {
  size_t struct_size;
  anello_combine combine;
  int64_t bucket_bytes; /* -1: as set; 0: a suitable size */
  int tune_buckets;     /* 1: the fastest of several sizes, tried in the first steps */
  int wire;             /* ANELLO_F16 or ANELLO_BF16 on the wire; 0: as they are */
  int error_feedback;   /* 1: what rounding takes away is added to the next step's */
  double max_norm;     /* 0: any */
  int passes;           /* backward passes a step */
} anello_gradient_options;
#define ANELLO_GRADIENT_OPTIONS_INIT \
  { sizeof(anello_gradient_options), ANELLO_COMBINE_AVERAGE, -1, 0, 0, 0, 0.0, 1 }
typedef struct {
  size_t struct_size;
  double norm;                       /* before it was scaled down; 0 without max_norm */
  uint64_t exposed_ns, communicated_ns;
} anello_gradient_step;
#define ANELLO_GRADIENT_STEP_INIT \
  { sizeof(anello_gradient_step), 0.0, 0, 0 }
typedef struct anello_gradients anello_gradients;
anello_status anello_gradients_create(anello_group* group, const anello_gradient* list, size_t count,
                                      const anello_gradient_options* options, anello_gradients** gradients);
anello_status anello_gradients_begin(anello_gradients* gradients, double factor);
anello_status anello_gradients_ready(anello_gradients* gradients, size_t gradient);
anello_status anello_gradients_finish(anello_gradients* gradients, anello_gradient_step* step); /* NULL: not wanted */
void anello_gradients_free(anello_gradients* gradients);

/* Diagnosis. A timeline: all ranks call both; in between every rank records what it does and when, then rank 0 writes
 * `path`, for Perfetto. A phase is a stretch of the program's own time in it; it ends when it is freed. The flight
 * recorder has this rank's last operations; it is also written when the world fails (ANELLO_FLIGHT_DIR). */
typedef struct {
  size_t struct_size;
  uint64_t operations;
  uint64_t tensor_bytes;               /* of the larger of input and output */
  uint64_t sent_bytes, received_bytes; /* of elements, as they travelled */
  uint64_t waits;                      /* times that an operation slept until a peer had gone on */
  uint64_t stalls;                     /* reports of operations that did not get on */
  uint64_t busy_ns, waited_ns;         /* in operations; of that, asleep */
  uint64_t rejected_connections;             /* connections to this rank that were turned away */
} anello_counters;
#define ANELLO_COUNTERS_INIT \
  { sizeof(anello_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0 }
typedef struct anello_phase anello_phase;
anello_status anello_get_counters(const anello_world* world, anello_counters* counters);
anello_status anello_write_flight(const anello_world* world, const char* path);
anello_status anello_start_timeline(anello_world* world, const char* path);
anello_status anello_stop_timeline(anello_world* world);
anello_status anello_phase_begin(const anello_world* world, const char* name, anello_phase** phase);
void anello_phase_end(anello_phase* phase);

/* Memory that the ranks of one host read where it lies: see memory.hpp. */
anello_status anello_allocate(size_t bytes, void** memory);
void anello_deallocate(void* memory);

#ifdef __cplusplus
}
#endif
ANELLO_API_END
#endif
