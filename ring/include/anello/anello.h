/* Anello for C, and for bindings of other languages. It is the only header that a C program has to include.
 *
 * Conventions:
 *  1. A call that can fail returns an anello_status: ANELLO_OK, or the kind of error. After an error,
 *     anello_last_error() returns one line that names the culprit and the remedy, and anello_last_error_rank() the rank
 *     at fault, or -1 if the error names none. Both refer to the last failed call of the calling thread.
 *  2. Handles are opaque. A handle that a call returns through an out parameter belongs to the caller, who frees it
 *     once. Freeing a NULL handle does nothing. Calls that return no status return -1 or NULL for a NULL handle. A call
 *     that fails does not change its out parameters.
 *  3. A tensor is a view: memory, a number of elements, a type. Its memory is borrowed until the call returns, or, if
 *     the call returns a work, until that work is done. All other arguments are borrowed until the call returns.
 *  4. "In place" means that input and output are the same memory; otherwise they must not overlap.
 *  5. A struct of options, settings or results begins with its own size, which its ..._INIT macro sets. Later versions
 *     may add members at the end. A pointer to options may be NULL, which means the defaults.
 *  6. Any thread may call. A blocking call blocks only its own thread.
 *  7. Strings are UTF-8 and end with a zero byte. Returned strings belong to the library. The names of statuses, types
 *     and reductions are valid for ever; a string of a handle is valid until the handle is freed. The pointer to the
 *     last error is valid until the thread ends; the thread's next failure overwrites the text.
 *
 * Order: every rank of a group must call the same operations in the same order with matching arguments. If one does
 * not, the call returns ANELLO_MISMATCH on all ranks. Operations on one group run one after another; groups do not wait
 * for each other.
 * Errors: ANELLO_INVALID_ARGUMENT changes nothing. After ANELLO_MISMATCH, _RANK_DEAD, _RANK_SILENT, _RANK_LEFT,
 * _DIVERGED, _ABORTED, _NETWORK or _PROTOCOL, or _TIMED_OUT of an operation, the world has failed, with all its groups:
 * every later call returns the same error, and the contents of outputs are undefined. (ANELLO_TIMED_OUT from
 * anello_work_wait_for only means that the work is not done yet.)
 * Results are bitwise equal on all ranks that get them.
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

/* The values never change. */
typedef enum {
  ANELLO_OK = 0,
  ANELLO_INVALID_ARGUMENT = 1, /* an argument of the call is wrong */
  ANELLO_CONFIGURATION = 2,    /* a setting or the environment is wrong */
  ANELLO_UNSUPPORTED = 3,      /* this build or this machine cannot do it */
  ANELLO_FILE = 4,             /* a file is missing or damaged, or cannot be written */
  ANELLO_NETWORK = 5,          /* an address, a connection or a system call on a socket failed */
  ANELLO_PROTOCOL = 6,         /* received bytes do not follow the protocol */
  ANELLO_UNAUTHORIZED = 7,     /* the handshake was refused: the secrets differ */
  ANELLO_RENDEZVOUS = 8,       /* the ranks did not come together at start */
  ANELLO_MISMATCH = 9,         /* ranks called different operations, or the same one with different arguments */
  ANELLO_RANK_DEAD = 10,       /* a rank's process ended without anello_finish */
  ANELLO_RANK_LEFT = 11,       /* a rank left the world while others still needed it */
  ANELLO_ABORTED = 12,         /* a rank called anello_abort, or the launcher ended the job */
  ANELLO_TIMED_OUT = 13,       /* a time limit was exceeded */
  ANELLO_RANK_SILENT = 14,     /* a rank's process is stopped or hangs, or its network is cut */
  ANELLO_DIVERGED = 15,        /* ranks have different results of the same operation (ANELLO_INTEGRITY) */
  ANELLO_DEVICE = 16,          /* a call on a GPU failed */
  ANELLO_OUT_OF_MEMORY = 100   /* memory could not be allocated, or the language's library failed */
} anello_status;

/* The types of elements. f16 is IEEE 754 half precision, bf16 is bfloat16; both are reduced in f32. A bool is a byte
 * that is 0 or 1. The 8-bit floats of the Open Compute Project are moved, and have no reductions. */
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
  ANELLO_BOOL,
  ANELLO_F8_E4M3,
  ANELLO_F8_E5M2
} anello_dtype;

/* The reductions. Sums and products of integers wrap around. Average divides the sum once, at the end; integers are
 * truncated toward zero. Min and max of a NaN are NaN. For bool, sum and max mean "any is true", product and min mean
 * "all are true", and there is no average. The bitwise reductions are for integers and bool. */
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

/* A tensor that is only read. */
typedef struct {
  const void* data;
  size_t count; /* elements */
  anello_dtype dtype;
} anello_input;
/* A tensor that may be written. */
typedef struct {
  void* data;
  size_t count; /* elements */
  anello_dtype dtype;
} anello_tensor;
/* A tensor with a shape: the number of its elements is the product of its dimensions, which is 1 if there are none. */
typedef struct {
  void* data;            /* not written if the call takes it as input */
  const uint64_t* shape; /* borrowed until the call returns */
  size_t dimensions;     /* the length of shape */
  anello_dtype dtype;
} anello_array;

/* A number in a struct of options that leaves the choice to the setting (an ANELLO_... variable). */
#define ANELLO_FROM_SETTINGS (-1)

/* Options of one call. All ranks must give the same ones, except for name and prescale. Members that do not apply to a
 * call must be left as ANELLO_OPTIONS_INIT sets them. "Reductions" are allreduce, reduce and reduce_scatter. */
typedef struct {
  size_t struct_size;
  const char* name;      /* appears in errors and diagnostics; NULL: none */
  const char* algorithm; /* allreduce: the algorithm, for example "ring"; NULL: ANELLO_ALGORITHM decides */
  int64_t slab_bytes;    /* reductions: the size of the parts in which a large buffer is reduced; 0: the whole buffer at
                            once; ANELLO_FROM_SETTINGS: ANELLO_SLAB_BYTES decides */
  int wire;              /* reductions: ANELLO_F16 or ANELLO_BF16: elements of f32 or f64 are sent rounded to this type;
                            0: elements are sent in their own type */
  double prescale;       /* reductions of floating-point types: inputs are multiplied by this number, which must be
                            finite, also in f32 unless the type is f64 */
  double postscale;      /* like prescale, for results */
  const uint64_t* counts; /* allgather, gather, scatter, reduce_scatter: the elements of each rank's part, the same on
                             all ranks; NULL: all parts have the same size */
  size_t counts_size;     /* the length of counts: the number of ranks, or 0 */
  uint64_t consistency_token; /* any number that the program chooses, for example a step; if it differs between ranks,
                                 the call returns ANELLO_MISMATCH */
} anello_options;
#define ANELLO_OPTIONS_INIT \
  { sizeof(anello_options), NULL, NULL, ANELLO_FROM_SETTINGS, 0, 1.0, 1.0, NULL, 0, 0 }

/* Settings that replace those of the environment: a list of texts such as "ANELLO_RANK=3". */
typedef struct {
  size_t struct_size;
  const char* const* settings;
  size_t settings_size;   /* the length of the list */
  const int* interrupted; /* anello_init looks at this number every 50 ms, and ends with ANELLO_ABORTED when it is not
                            0: a signal handler or another thread may set it; NULL: nothing ends it early */
} anello_config;
#define ANELLO_CONFIG_INIT \
  { sizeof(anello_config), NULL, 0, NULL }

const char* anello_version(void);                     /* of the library, for example "0.2.0" */
const char* anello_status_name(anello_status status); /* for example "rank_dead" */
const char* anello_dtype_name(anello_dtype dtype);    /* for example "f32"; "?" if there is no such type */
const char* anello_op_name(anello_op op);             /* for example "sum"; "?" if there is no such reduction */
size_t anello_dtype_size(anello_dtype dtype);         /* bytes of one element; 0 if there is no such type */
const char* anello_last_error(void);                  /* see convention 1; "" if no call has failed */
int anello_last_error_rank(void);

/* The world: all ranks of a job. */

/* Joins the world that the environment and `config` describe; without any such settings, a world of one rank. Blocks
 * until all ranks have joined, but not longer than ANELLO_START_TIMEOUT. */
anello_status anello_init(const anello_config* config, anello_world** world);
/* A way for the ranks to exchange small texts before they are connected, for example another library's key-value store.
 * Both functions return 0, or another number if they failed. They are called by the thread that calls
 * anello_init_through, only until it returns. */
typedef struct {
  size_t struct_size;
  void* context; /* passed to both */
  /* Stores a text under a key, which is new. */
  int (*put)(void* context, const char* key, const char* value);
  /* Blocks until a rank has stored the key, limit_ms milliseconds at most. Then writes its text with a zero byte at the
   * end to `value`, which has room for `capacity` bytes; fails if that is too little. Texts have up to 255 bytes. */
  int (*get)(void* context, const char* key, uint64_t limit_ms, char* value, size_t capacity);
  int rank, size;   /* this process's rank, and the size of the world */
  const char* name; /* name of this exchange, for messages and in the job's name; the same on all ranks */
} anello_exchange;
#define ANELLO_EXCHANGE_INIT \
  { sizeof(anello_exchange), NULL, NULL, NULL, 0, 1, NULL }
/* Like anello_init, for ranks that another program has started: they find each other by `exchange`, and the variables
 * ANELLO_RANK, ANELLO_SIZE and ANELLO_RENDEZVOUS are ignored. The world's connections need no rendezvous server. The
 * exchange should be private to the job's user, since the job's secret passes through it. A process may make several
 * worlds one after another through the same exchange; all ranks must make the same number of worlds. */
anello_status anello_init_through(const anello_exchange* exchange, const anello_config* config, anello_world** world);
/* Ends the world in good order: blocks until every rank has called it. Returns an error if another rank has failed. For
 * the world of an elastic job, anello_elastic_finish does it. */
anello_status anello_finish(anello_world* world);
/* Ends the world on every rank: calls in progress return ANELLO_ABORTED with this rank and the reason. Does not block.
 */
anello_status anello_abort(anello_world* world, const char* reason);
/* The error that ended the world, as a status and the thread's last error; ANELLO_OK while the world is in order. Just
 * after a failure it may block for up to four seconds, until the ranks agree on the reason. */
anello_status anello_failure(const anello_world* world);
/* Leaves the world if anello_finish was not called, and does not wait for other ranks. Groups and works of this world
 * may be freed later. A world that is not freed is left by exit(0) or a return from main, and aborted if the status is
 * not 0. */
void anello_world_free(anello_world* world);
int anello_local_rank(const anello_world* world); /* this rank's number among the ranks of this host, from 0 */
int anello_local_size(const anello_world* world); /* the number of ranks on this host */
int anello_node_rank(const anello_world* world);  /* this host's number among the hosts, from 0 */
int anello_node_count(const anello_world* world); /* the number of hosts */
/* The name of the host on which a rank of the world runs, for messages. */
anello_status anello_host(const anello_world* world, int rank, const char** host);
/* Four words, for example "4 1 memory shared": the number of ranks; the number of hosts; tcp or memory, which is how
 * ranks of one host communicate; own or shared, which says whether each rank has cores of its own. */
anello_status anello_layout(const anello_world* world, const char** layout);

/* Groups: ordered sets of ranks. */

/* The group of all ranks. It belongs to the world: do not free it. */
anello_group* anello_world_group(anello_world* world);
/* A group of `count` ranks of `group`, in the given order. Only the members call this. Does not communicate or block.
 * Each member must create the same groups of the same members; a group that is created several times must be created
 * equally often by every member. */
anello_status anello_group_create(anello_group* group, const int* members, size_t count, anello_group** created);
/* Divides a group: ranks that give the same colour form a new group, ordered by key, then by rank. All ranks of the
 * group call it. Blocks. */
anello_status anello_group_split(anello_group* group, int colour, int key, anello_group** part);
/* Frees the handle. The group ends for this rank when the operations that were started are done. If other ranks need
 * this rank in the group after that, their calls return ANELLO_RANK_LEFT. */
void anello_group_free(anello_group* group);
int anello_rank(const anello_group* group);                    /* this rank's number in the group, from 0 */
int anello_size(const anello_group* group);                    /* the number of ranks in the group */
int anello_world_rank(const anello_group* group, int rank);    /* the world rank of a rank of the group; -1: none */
int anello_rank_of(const anello_group* group, int world_rank); /* a world rank's rank in the group; -1: none */

/* Collectives. If `work` is NULL, the call blocks until this rank's part is done. Otherwise it returns at once and
 * gives the caller a handle; operations run in the order in which they were called. A list of tensors is one operation,
 * in place, without a copy; its tensors must have the same dtype, and tensors that are reduced must not share memory.
 * For an ignored argument, any tensor with count 0 may be given. */

/* Sets `mean` to the mean of `value` over all ranks, the same on all of them. Blocks. */
anello_status anello_average(anello_group* group, double value, double* mean);
/* output[i] = the reduction of input[i] over all ranks. In place: give the same memory twice. */
anello_status anello_allreduce(anello_group* group, anello_input input, anello_tensor output, anello_op op,
                               const anello_options* options, anello_work** work);
anello_status anello_allreduce_list(anello_group* group, const anello_tensor* tensors, size_t count, anello_op op,
                                    const anello_options* options, anello_work** work);
/* On the root: output[i] = the reduction of input[i] over all ranks. The output of other ranks is ignored. */
anello_status anello_reduce(anello_group* group, anello_input input, anello_tensor output, int root, anello_op op,
                            const anello_options* options, anello_work** work);
/* Copies the root's elements to the same tensor of every other rank. */
anello_status anello_broadcast(anello_group* group, anello_tensor tensor, int root, const anello_options* options,
                               anello_work** work);
anello_status anello_broadcast_list(anello_group* group, const anello_tensor* tensors, size_t count, int root,
                                    const anello_options* options, anello_work** work);
/* Part r of every rank's output = the input of rank r. The output has as many elements as all inputs together. In
 * place: input is this rank's part of output. */
anello_status anello_allgather(anello_group* group, anello_input input, anello_tensor output,
                               const anello_options* options, anello_work** work);
/* Like allgather, but only the root gets an output. The output of other ranks is ignored. */
anello_status anello_gather(anello_group* group, anello_input input, anello_tensor output, int root,
                            const anello_options* options, anello_work** work);
/* output = this rank's part of the root's input. The input of other ranks is ignored. In place: the root's output is
 * its part of its input. */
anello_status anello_scatter(anello_group* group, anello_input input, anello_tensor output, int root,
                             const anello_options* options, anello_work** work);
/* output = the reduction over all ranks of this rank's part of their inputs. In place: output is this rank's part of
 * input; the rest of input is undefined afterwards. */
anello_status anello_reduce_scatter(anello_group* group, anello_input input, anello_tensor output, anello_op op,
                                    const anello_options* options, anello_work** work);
/* Part r of output = this rank's part of the input of rank r. Not in place. If send_counts and recv_counts are NULL,
 * all parts have the same size; otherwise both have one number of elements for each rank of the group. */
anello_status anello_alltoall(anello_group* group, anello_input input, anello_tensor output,
                              const uint64_t* send_counts, const uint64_t* recv_counts, const anello_options* options,
                              anello_work** work);
/* Transfers between two ranks: the n-th recv from a rank gets the elements of that rank's n-th send to this rank. Count
 * and dtype must be the same. Whether a blocking send waits for the recv depends on sizes and buffers. */
anello_status anello_send(anello_group* group, anello_input tensor, int to, const anello_options* options,
                          anello_work** work);
anello_status anello_recv(anello_group* group, anello_tensor tensor, int from, const anello_options* options,
                          anello_work** work);
/* *arrived = 1 if rank `from` has sent something to this rank that no anello_recv has taken yet, otherwise 0. It is 0
 * while an anello_recv from that rank is pending, because incoming data belongs to that call. Does not block, except
 * that just after a failure it may, until the ranks agree on the reason. Returns the errors of anello_recv, also if
 * nothing can arrive any more because `from` has left. */
anello_status anello_probe(anello_group* group, int from, int* arrived);
/* Done when every rank has called it. */
anello_status anello_barrier(anello_group* group, const anello_options* options, anello_work** work);

/* One record for all of the calls above, for bindings and for programs that choose an operation at run time. Set the
 * members that the operation takes, and leave the others as ANELLO_CALL_INIT sets them. */
typedef enum {
  ANELLO_ALLREDUCE = 1,
  ANELLO_BROADCAST,
  ANELLO_ALLGATHER,
  ANELLO_REDUCE_SCATTER,
  ANELLO_BARRIER,
  ANELLO_REDUCE,
  ANELLO_GATHER,
  ANELLO_SCATTER,
  ANELLO_ALLTOALL,
  ANELLO_SEND,
  ANELLO_RECV,
  ANELLO_EXCHANGE /* anello_gpu_carry_out only: a send and a recv at the same time */
} anello_kind;
typedef struct {
  size_t struct_size;
  int kind;                      /* one of anello_kind */
  int op;                        /* reductions: one of anello_op */
  int root;                      /* the root, if there is one */
  int to, from;                  /* the peers of a send and of a recv */
  const uint64_t* send_counts;   /* alltoall: as in anello_alltoall; anello_named_submit: the splits */
  const uint64_t* recv_counts;   /* alltoall: likewise */
  const anello_options* options; /* NULL in anello_named_submit, which has options of its own */
  anello_input input;            /* what is sent */
  anello_tensor output;          /* what is received; the tensor of a broadcast */
  const anello_tensor* list;     /* allreduce, broadcast: a list in place of input and output; NULL: none */
  size_t list_size;
  const anello_array* inputs;  /* anello_named_submit: the tensors, in place of the four members above */
  const anello_array* outputs; /* likewise, of an allreduce; NULL: in place */
  size_t arrays_size;          /* the length of `inputs`, and of `outputs` if there are any */
} anello_call;
#define ANELLO_CALL_INIT                                                                                               \
  {                                                                                                                    \
    sizeof(anello_call), 0, ANELLO_SUM, 0, -1, -1, NULL, NULL, NULL, {NULL, 0, ANELLO_U8}, {NULL, 0, ANELLO_U8}, NULL, \
        0, NULL, NULL, 0                                                                                               \
  }
/* Does the same as the function for the call's kind: carries the call out, or, if `work` is not NULL, starts it. If a
 * tensor, list, count or array is set that this function does not take, returns ANELLO_INVALID_ARGUMENT. */
anello_status anello_carry_out(anello_group* group, const anello_call* call, anello_work** work);

/* For a binding that refuses some calls itself: reports that it has refused a call of this rank's program for `reason`.
 * Ranks that wait for this call get the reason, as they do if the library refuses a call with ANELLO_INVALID_ARGUMENT:
 * in a report soon after they begin to wait, and in the error of ANELLO_OPERATION_LIMIT. Nothing else changes: the
 * program may then make the correct call. The three functions do not block. No effect if the world has failed. */
anello_status anello_refuse(anello_group* group, const char* reason);                /* a collective, or a barrier */
anello_status anello_refuse_send(anello_group* group, int to, const char* reason);   /* an anello_send */
anello_status anello_refuse_recv(anello_group* group, int from, const char* reason); /* an anello_recv */

/* Work: a handle of an operation that was started and goes on by itself. */

/* Blocks until the operation is done, and returns the status that the blocking call would have returned. The calling
 * thread moves the operation's data meanwhile. */
anello_status anello_work_wait(anello_work* work);
/* Like anello_work_wait, with a limit of limit_ms milliseconds: ANELLO_TIMED_OUT if the operation is not done by then,
 * and the world goes on. This call moves no data, so anello_work_wait is faster where ranks share cores. */
anello_status anello_work_wait_for(anello_work* work, uint64_t limit_ms);
/* Blocks until all of the operations are done, also if one of them fails. Then returns the error of the first one in
 * the list that has failed. */
anello_status anello_wait_all(anello_work* const* works, size_t count);
/* 1 if the operation is complete or has failed, otherwise 0. Does not block. */
int anello_work_done(const anello_work* work);
/* Calls `callback` once when the operation is done: at once if it is already done, otherwise on the thread that moves
 * the last byte. The callback must not block or wait. `message` is NULL if the operation has succeeded, and is
 * valid while the callback runs. */
typedef void (*anello_callback)(void* context, anello_status status, const char* message);
anello_status anello_work_when_done(anello_work* work, anello_callback callback, void* context);
/* Frees the handle. The operation goes on, and still needs its tensors. */
void anello_work_free(anello_work* work);

/* Named operations. An agenda starts an operation when all ranks of its group have submitted it, so ranks may submit in
 * any order, and from any thread. Operations are matched by verb and name; without a name, the n-th unnamed operation
 * of a verb on one rank matches the n-th on the others, counted from the beginning or the last join. Operations of an
 * agenda and calls on the group do not wait for each other, and need no common order.
 *
 * Before data moves the ranks compare verb, dtypes, shapes, reduction, root and factors. If they differ, the operation
 * returns ANELLO_MISMATCH on every rank, the message has both ranks and both values, tensors are unchanged, and the
 * world goes on: anello_failure still returns ANELLO_OK. The same is true of allgather, broadcast, alltoall and
 * reduce_scatter while a rank has joined. With every other error of an operation, except ANELLO_INVALID_ARGUMENT, the
 * world has failed.
 *
 * A list of tensors is one operation: all of it is done, or nothing. Its tensors may differ in dtype and shape.
 *
 * A name is taken from its submission until anello_named_wait or anello_named_done has returned that the operation is
 * done, or its handle is freed; submitting it again before that returns ANELLO_INVALID_ARGUMENT, as do wrong arguments.
 * A call with wrong arguments, or for whose outputs there is no memory, counts as submitted: on the other ranks the
 * operation returns ANELLO_MISMATCH, and the message has this rank and the reason.
 */
typedef struct anello_agenda anello_agenda;
typedef struct anello_named anello_named;
typedef struct {
  size_t struct_size;
  double prescale;  /* reductions: inputs are multiplied by this finite number; integers in f64, then truncated */
  double postscale; /* reductions: results are multiplied by this finite number; integers in f64, then truncated */
  int wire;         /* reductions: as in anello_options */
  int waits;        /* 1: the caller calls anello_named_wait at once. Nothing moves before that call, and the operation
                       takes less time. */
  int on_gpu;       /* 1: all tensors are in GPU memory; for a join: the rank has a GPU. See gpu.h. */
  int device;       /* the number of that GPU */
  void* stream;     /* the cudaStream_t on which the tensors are made */
} anello_named_options;
#define ANELLO_NAMED_OPTIONS_INIT \
  { sizeof(anello_named_options), 1.0, 1.0, 0, 0, 0, 0, NULL }

/* Creates an agenda for the ranks of `group`, with its own connections. If a group has several agendas, all its ranks
 * must create them in the same order. Does not communicate or block. */
anello_status anello_agenda_create(anello_group* group, anello_agenda** agenda);
/* Ends the agenda for this rank, and the operations that are not done: anello_named_wait returns ANELLO_ABORTED for
 * them. If other ranks need this rank in the agenda after that, their operations return ANELLO_RANK_LEFT, and the world
 * has failed: so let all ranks pass a barrier first. Blocks until no thread waits. */
void anello_agenda_free(anello_agenda* agenda);

/* The following functions submit an operation and do not wait for it; its handle can wait. `name` may be NULL.
 * Tensors are borrowed until the operation is done; all other arguments, such as a list and its shapes, until the call
 * returns. `options` may be NULL. */

/* outputs[k] = the reduction of inputs[k] over all ranks. `outputs` NULL: in place. */
anello_status anello_named_allreduce(anello_agenda* agenda, const char* name, const anello_array* inputs,
                                     const anello_array* outputs, size_t count, anello_op op,
                                     const anello_named_options* options, anello_named** operation);
/* Output k = the inputs[k] of all ranks one after another, by rank. First dimensions may differ between ranks. */
anello_status anello_named_allgather(anello_agenda* agenda, const char* name, const anello_array* inputs, size_t count,
                                     const anello_named_options* options, anello_named** operation);
/* Copies the root's elements to the same tensors of every other rank. */
anello_status anello_named_broadcast(anello_agenda* agenda, const char* name, const anello_array* tensors, size_t count,
                                     int root, const anello_named_options* options, anello_named** operation);
/* Output 0 = the rows that the ranks sent to this one, by rank. splits[r] rows (parts of the first dimension) go to
 * rank r; `splits` has one number for each rank of the group. NULL: all parts have the same size. */
anello_status anello_named_alltoall(anello_agenda* agenda, const char* name, const anello_array* input,
                                    const uint64_t* splits, const anello_named_options* options,
                                    anello_named** operation);
/* Output k = this rank's rows of the reduction of inputs[k] over all ranks. Ranks get equal numbers of rows, except
 * that the first ones get one more if the first dimension is not a multiple of the number of ranks. */
anello_status anello_named_reduce_scatter(anello_agenda* agenda, const char* name, const anello_array* inputs,
                                          size_t count, anello_op op, const anello_named_options* options,
                                          anello_named** operation);
/* Done when every rank has submitted it. It does not wait for operations that are running or waiting. */
anello_status anello_named_barrier(anello_agenda* agenda, const char* name, const anello_named_options* options,
                                   anello_named** operation);
/* Does the same as the function for the call's kind; for every kind except a join. Returns ANELLO_INVALID_ARGUMENT for
 * a kind that is not a named operation, and if a tensor, list, count, array or option is set that this function does
 * not take. */
anello_status anello_named_submit(anello_agenda* agenda, const char* name, const anello_call* call,
                                  const anello_named_options* options, anello_named** operation);
/* This rank has no more data: until all ranks have joined, it takes part in allreduces and barriers that others submit,
 * and contributes neutral elements: zeros to a sum or average, which is still divided by the size of the group. Done
 * when all ranks have joined and this rank has done its part in the operations that they submitted; see
 * anello_named_last. Until then this rank cannot submit anything else. */
anello_status anello_named_join(anello_agenda* agenda, const anello_named_options* options, anello_named** operation);

/* The values never change. */
typedef enum {
  ANELLO_NAMED_ALLREDUCE = 1,
  ANELLO_NAMED_ALLGATHER,
  ANELLO_NAMED_BROADCAST,
  ANELLO_NAMED_ALLTOALL,
  ANELLO_NAMED_REDUCE_SCATTER,
  ANELLO_NAMED_BARRIER
} anello_verb;
/* For a binding that refuses some calls itself: reports that it has refused a call of this rank's program for `reason`.
 * The call counts as submitted. On the other ranks the operation returns ANELLO_MISMATCH, and the message has this rank
 * and the reason. `verb` is one of anello_verb. Does not block. No effect if the name is taken or too long, if this
 * rank has joined, or if the world has failed. */
anello_status anello_named_refuse(anello_agenda* agenda, int verb, const char* name, const char* reason);

/* Blocks until the operation is done, for at most limit_ms milliseconds, and returns its error. If it is not done by
 * then: ANELLO_TIMED_OUT; the operation goes on, and may be waited for again. UINT64_MAX: no limit. The calling thread
 * moves the data meanwhile. */
anello_status anello_named_wait(anello_named* operation, uint64_t limit_ms);
/* 1 if the operation is complete or has failed, otherwise 0. Does not block. */
int anello_named_done(anello_named* operation);
/* Calls `callback` once when the operation is done and its name is free: at once if that is already so, otherwise on
 * the thread that finds it done. The callback may submit operations and use this handle, but must not wait. A second
 * callback replaces one that was not called yet. If the handle is freed, the operation goes on, and the callback is
 * still called. */
anello_status anello_named_when_done(anello_named* operation, anello_callback callback, void* context);
/* Sets `output` to output `index` of a complete operation. allgather, alltoall and reduce_scatter allocate their
 * outputs; this memory, and `output->shape`, belong to `operation` and are valid until it is freed. */
anello_status anello_named_output(const anello_named* operation, size_t index, anello_array* output);
/* Like anello_named_output, but gives a DLManagedTensor of DLPack: pass it on in a PyCapsule, or call its deleter. The
 * tensor is valid until then, also after `operation` is freed; any thread may call the deleter, at any time. */
anello_status anello_named_dlpack(const anello_named* operation, size_t index, void** managed);
/* Sets `rows` to the numbers of rows that the ranks contributed to output `index` of a complete allgather or alltoall,
 * one number for each rank of the group. Valid until `operation` is freed. */
anello_status anello_named_rows(const anello_named* operation, size_t index, const uint64_t** rows);
/* Sets `rank` to the rank of the group that joined last, for a complete join; the same on all ranks. */
anello_status anello_named_last(const anello_named* operation, int* rank);
/* Frees the handle and the outputs. An operation that is not done goes on, and still needs its tensors. */
void anello_named_free(anello_named* operation);
/* Describes in one line why an operation is not done: "allreduce 'loss' waits for rank 2", or that it moves data, or is
 * done. A rank has reports of only a part of the ranks; for the others the line is "it waits for the answer of rank 0".
 * Valid until the thread's next call. */
anello_status anello_named_describe(const anello_named* operation, const char** line);

/* Gradients, averaged over the ranks in buckets while the backward pass still runs. All ranks create them with the same
 * list and options. In each step call begin, then ready for each gradient when it is complete, then finish. Only one
 * thread at a time may call these. */
typedef enum {
  ANELLO_COMBINE_AVERAGE = 0, /* the sum of factor x gradient over all ranks, divided by the number of ranks */
  ANELLO_COMBINE_SUM = 1,     /* the sum of factor x gradient */
  ANELLO_COMBINE_WEIGHTED = 2 /* the sum of factor x gradient, divided by the sum of the factors */
} anello_combine;
/* How anello_gradients_finish treats a gradient for which anello_gradients_ready was not called in each pass. */
enum {
  ANELLO_UNANNOUNCED_ERROR = 0, /* it fails on all ranks, and names the gradient and a rank that did not announce it */
  ANELLO_UNANNOUNCED_ZERO = 1   /* the gradient counts as zero on this rank, if it was never announced */
};
typedef struct {
  const char* name;      /* one line, unique in the list */
  anello_tensor tensor;  /* f16, bf16, f32 or f64; borrowed until the anello_gradients is freed */
  const uint64_t* shape; /* compared between ranks; NULL: none */
  size_t dimensions;     /* the length of shape */
} anello_gradient;
typedef struct {
  size_t struct_size;
  anello_combine combine;
  int64_t bucket_bytes;    /* the maximum size of a bucket; 0: a suitable size; ANELLO_FROM_SETTINGS:
                              ANELLO_BUCKET_BYTES decides */
  int tune_buckets;        /* 1: try several sizes in the first steps and keep the fastest */
  int wire;                /* ANELLO_F16 or ANELLO_BF16: gradients are sent rounded to this type; 0: in their own */
  int error_feedback;      /* 1: add the rounding error of a gradient to the next step's; f32 with wire only */
  double max_norm;         /* the maximum norm of all gradients together, to which they are scaled down; 0: none */
  int accumulation_passes; /* the number of backward passes in a step: ready is called for each gradient in each */
  int64_t unannounced;     /* ANELLO_UNANNOUNCED_ERROR or ANELLO_UNANNOUNCED_ZERO */
} anello_gradient_options;
#define ANELLO_GRADIENT_OPTIONS_INIT                                                                \
  {                                                                                                 \
    sizeof(anello_gradient_options), ANELLO_COMBINE_AVERAGE, ANELLO_FROM_SETTINGS, 0, 0, 0, 0.0, 1, \
        ANELLO_UNANNOUNCED_ERROR                                                                    \
  }
/* The measurements that anello_gradients_finish made in one step. */
typedef struct {
  size_t struct_size;
  double norm;              /* of all gradients together, before scaling; 0 without max_norm */
  uint64_t exposed_ns;      /* how long finish waited for operations */
  uint64_t communicated_ns; /* how long operations took from beginning to end, hidden or not */
} anello_step_stats;
#define ANELLO_STEP_STATS_INIT \
  { sizeof(anello_step_stats), 0.0, 0, 0 }
typedef struct anello_gradients anello_gradients;
/* Blocks until all ranks have called it. ANELLO_MISMATCH names the first gradient or option that differs. */
anello_status anello_gradients_create(anello_group* group, const anello_gradient* list, size_t count,
                                      const anello_gradient_options* options, anello_gradients** gradients);
/* Begins a step, in which this rank's gradients are multiplied by `factor`. Does not block. */
anello_status anello_gradients_begin(anello_gradients* gradients, double factor);
/* Announces that a gradient, given by its index in the list, is complete in this pass. After the last pass the program
 * must not use the gradient until anello_gradients_finish returns. Does not block, except once in a step with
 * ANELLO_COMBINE_WEIGHTED. */
anello_status anello_gradients_ready(anello_gradients* gradients, size_t gradient);
/* Blocks until all gradients are combined. Every rank must call it. If this rank did not announce all gradients (see
 * unannounced), the world ends: ANELLO_ABORTED on all ranks, and the message names the gradients and this rank; in a
 * group of one rank it is ANELLO_INVALID_ARGUMENT. `stats` may be NULL. */
anello_status anello_gradients_finish(anello_gradients* gradients, anello_step_stats* stats);
void anello_gradients_free(anello_gradients* gradients);
/* Error feedback for programs that send gradients by other calls: gradient = factor x gradient + lost, rounded to
 * `wire` (ANELLO_F16 or ANELLO_BF16); lost = the error of that rounding, for the next step. Only f32; `lost` has as
 * many elements as the gradient, and is zero at first. Then send the gradient with this wire and without another
 * factor. Does not communicate. */
anello_status anello_round_with_feedback(anello_tensor gradient, double factor, int wire, float* lost);

/* Elastic jobs: ranks may end and others join, and the training goes on with the state of those that live.
 * docs/elastic.md describes them. The program keeps the state, and sends it itself when a world begins:
 *
 *   while (anello_elastic_enter(job, &world) == ANELLO_OK && world != NULL) {
 *     anello_elastic_begin(job, manifest);        then anello_elastic_get_change: who sends, and who receives
 *     anello_elastic_deliver(job, tensors, count);   the sources send the entries to the receivers
 *     anello_elastic_end(job, entries, count, bytes);
 *     ... for each step: collectives; anello_elastic_commit_begin; write the entries; anello_elastic_commit_end
 *     anello_elastic_finish(job);
 *   }
 *
 * After an error of any of these calls or collectives, anello_elastic_survives decides whether anello_elastic_enter may
 * follow. One thread at a time may call these functions. */
typedef struct anello_elastic anello_elastic;

/* Joins the job of the rendezvous server that ANELLO_RENDEZVOUS names. Blocks until the server is found, for
 * ANELLO_START_TIMEOUT at most. The number of config->interrupted must exist as long as the job: it also ends
 * anello_elastic_enter, and the wait in anello_elastic_commit_end. */
anello_status anello_elastic_join(const anello_config* config, anello_elastic** job);
/* Leaves the world and makes the next one. Blocks until every process of the last world has come or ended, and enough
 * are there. The world belongs to the job and is valid until the next call, or until the job is freed; so are its works
 * and groups, except that they may be freed later. Sets `world` to NULL if the others have finished without this
 * process: its state is then not the result. If the call fails, this process cannot go on. */
anello_status anello_elastic_enter(anello_elastic* job, anello_world** world);
/* Decides which ranks of the new world send the state and which receive it. All ranks call it once in each world,
 * before the first commit; blocks. From here on a receiver's state is not clean until anello_elastic_end has
 * succeeded, so if anything fails before that, it will not be a source.
 * `manifest` has a line for each entry, with its name, kind and size, or is empty. If it differs between ranks, they
 * get ANELLO_MISMATCH with the first line that differs; the ranks that have the state can go on. ANELLO_RENDEZVOUS: no
 * rank has a complete state. */
anello_status anello_elastic_begin(anello_elastic* job, const char* manifest);
/* Copies these tensors from the sources to the receivers: each source sends a part of them, and receives nothing. All
 * ranks call it after anello_elastic_begin, with tensors of the same sizes; it may be called several times. Blocks.
 * ANELLO_MISMATCH names the first tensor whose size differs. The tensors must be equal on all sources, so give their
 * hashes to anello_elastic_end. Other entries can be sent by collectives, for example in a group of the first source
 * and the receivers. */
anello_status anello_elastic_deliver(anello_elastic* job, const anello_tensor* tensors, size_t count);
/* An entry of the state, after it was sent: its name, one line, and its hash by anello_elastic_hash. */
typedef struct {
  const char* name;
  uint64_t high, low;
} anello_elastic_entry;
/* Compares the entries of all ranks, which give them in the same order; blocks. Then this rank holds the state of the
 * newest revision, and is clean. ANELLO_DIVERGED names an entry that differs, and the ranks. `bytes`: the number of
 * bytes that each receiver got, for messages. */
anello_status anello_elastic_end(anello_elastic* job, const anello_elastic_entry* entries, size_t count,
                                 uint64_t bytes);
/* XXH3 with 128 bits. Does not communicate; any thread. */
anello_status anello_elastic_hash(const void* data, size_t bytes, uint64_t* high, uint64_t* low);
/* Writes the numbers from 0 to count - 1 in the order in which the trainer takes its samples in an epoch: the same on
 * every machine, and different for each seed and epoch. If all ranks take their parts of this order, no number of ranks
 * changes the samples of a step. Does not communicate; any thread. */
anello_status anello_elastic_order(uint64_t seed, uint64_t epoch, uint32_t* order, size_t count);

/* How this process came into its newest world. */
typedef struct {
  size_t struct_size;
  uint32_t generation; /* number of the world */
  int rank, size;
  uint64_t revision;     /* commits so far; of the sources after anello_elastic_begin */
  const int* sources;    /* ranks that have the newest state, ascending */
  size_t sources_size;   /* the length of sources; 0 before anello_elastic_begin */
  const int* receivers;  /* ranks that get it, ascending: all others */
  size_t receivers_size; /* the length of receivers */
  uint64_t bytes;        /* that each receiver got */
  uint64_t paused_ns;    /* from the end of the last world, or from joining, to the end of anello_elastic_end */
  const char* reason;    /* "left: rank 3 (node-a, pid 7): ...; joined: ..."; "" at first */
} anello_elastic_change;
#define ANELLO_ELASTIC_CHANGE_INIT \
  { sizeof(anello_elastic_change), 0, 0, 0, 0, NULL, 0, NULL, 0, 0, 0, NULL }
/* Lists and strings are valid until the next anello_elastic_enter, _begin or _end. */
anello_status anello_elastic_get_change(const anello_elastic* job, anello_elastic_change* change);

uint64_t anello_elastic_revision(const anello_elastic* job); /* completed commits of the job; UINT64_MAX: NULL */
int anello_elastic_holds(const anello_elastic* job); /* 1 if the state has been synchronized; 0 at the beginning */
/* 1 if the entries are those of the revision. 0 during a commit and while this rank receives the state, and after one
 * of these has failed, until anello_elastic_end succeeds. */
int anello_elastic_clean(const anello_elastic* job);
/* A commit ends a step: between the two calls the program writes the entries, and calls no collective. If it cannot
 * write them, it does not call anello_elastic_commit_end: then this rank's state is not clean, and it will receive that
 * of another rank. anello_elastic_commit_end sets `ends` to 1 if the world ends here as planned, because processes
 * join: anello_elastic_enter must follow. It may block while such a change is planned, for ANELLO_SILENCE_LIMIT (10 s
 * if there is none) at most. */
anello_status anello_elastic_commit_begin(anello_elastic* job);
anello_status anello_elastic_commit_end(anello_elastic* job, int* ends);
/* Compares the entries of all ranks after the same commit: all call it, with the entries in the same order; blocks.
 * ANELLO_DIVERGED names an entry that differs, and the ranks. Without it, a value that differs ends the job only when a
 * world begins, perhaps after days; anello::elastic and the Python package compare after the commits 1, 2, 4, 8, ... */
anello_status anello_elastic_compare(anello_elastic* job, const anello_elastic_entry* entries, size_t count);
/* 1 if the world will end at one of the next commits, because processes join or leave; -1: NULL. */
int anello_elastic_change_is_planned(const anello_elastic* job);
/* 1 if an error has ended the world because of another rank, so that anello_elastic_enter may follow; otherwise 0.
 * `status` and `rank`: of the error, as the call and anello_last_error_rank returned them. */
int anello_elastic_survives(const anello_elastic* job, anello_status status, int rank);
/* The training has ended on this rank. Blocks until it has ended on all, or a rank has ended; then the others may redo
 * their last step. ANELLO_MISMATCH if another rank has not come to its end. */
anello_status anello_elastic_finish(anello_elastic* job);
/* Leaves the job. Without anello_elastic_finish, the others go on without this process. */
void anello_elastic_free(anello_elastic* job);

/* Diagnosis. */

/* Totals of this rank since its world began. Failed operations are not counted. */
typedef struct {
  size_t struct_size;
  uint64_t operations;           /* completed operations */
  uint64_t tensor_bytes;         /* bytes of the input or the output of each operation, whichever is larger */
  uint64_t sent_bytes;           /* bytes of elements as they were sent */
  uint64_t received_bytes;       /* bytes of elements as they were received */
  uint64_t waits;                /* how often an operation slept because a peer was late */
  uint64_t stalls;               /* how often an operation was reported because it made no progress */
  uint64_t busy_ns;              /* the time from the beginning to the end of each operation */
  uint64_t waited_ns;            /* the part of busy_ns in which the operation slept */
  uint64_t rejected_connections; /* incoming connections that this rank refused */
} anello_counters;
#define ANELLO_COUNTERS_INIT \
  { sizeof(anello_counters), 0, 0, 0, 0, 0, 0, 0, 0, 0 }
/* Does not block. */
anello_status anello_get_counters(const anello_world* world, anello_counters* counters);
/* Writes this rank's flight record to `path` as JSON: its last operations and those that are queued. When the
 * world fails it is also written to ANELLO_FLIGHT_DIR, or to the system's folder for temporary files. */
anello_status anello_write_flight(const anello_world* world, const char* path);
/* Records a timeline. All ranks call both functions, and both block. Between the two calls every rank records its
 * operations and phases; anello_stop_timeline makes rank 0 write them to `path` in Chrome's trace format, which
 * Perfetto opens. */
anello_status anello_start_timeline(anello_world* world, const char* path);
anello_status anello_stop_timeline(anello_world* world);
/* A phase: a part of the program's own work that the timeline shows. anello_phase_end also frees it. */
typedef struct anello_phase anello_phase;
anello_status anello_phase_begin(const anello_world* world, const char* name, anello_phase** phase);
void anello_phase_end(anello_phase* phase);

/* Allocates at least `bytes` bytes of zeroed memory, in whole pages, for tensors that other ranks of the same host can
 * read and write directly, which saves copies (memory.hpp has the sizes). No operation may use it when it is freed. */
anello_status anello_allocate(size_t bytes, void** memory);
void anello_deallocate(void* memory);

#ifdef __cplusplus
}
#endif
ANELLO_API_END
#endif
