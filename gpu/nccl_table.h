/* What the engine asks of NCCL: a second table of C functions, of the same plugin, which loads NCCL itself, or of a
   test's fake. Every function but the first two returns 0, ANELLO_NCCL_IN_PROGRESS or a status, which describe() puts in
   words. Element types and reductions have the values of anello::DType and anello::Op. A communicator is made on the
   calling thread's current device and does not block; while it is in progress nothing but state() and abort() may be
   called with it. Between group_start() and group_end() a thread's calls are put together to one. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ANELLO_NCCL_IN_PROGRESS (-1)

typedef struct AnelloNcclId {
  char bytes[128];
} AnelloNcclId;

typedef struct AnelloNcclTable {
  const char* (*describe)(int status);
  const char* (*details)(void* comm); /* of what failed last; may be null */

  int (*version)(int* version); /* 22809: 2.28.9 */
  int (*has)(int dtype, int op); /* 1: reductions of that kind; 0: none. Other calls take any type. */

  int (*unique_id)(AnelloNcclId* id);
  int (*create)(void** comm, int size, const AnelloNcclId* id, int rank);
  int (*split)(void* comm, int colour, int key, void** child);
  int (*state)(void* comm);
  int (*finalize)(void* comm); /* what was queued is done when it is no longer in progress */
  int (*destroy)(void* comm);  /* after that */
  int (*abort)(void* comm);    /* instead of both; any thread; may block */

  int (*group_start)(void);
  int (*group_end)(void);
  int (*allreduce)(const void* in, void* out, size_t count, int dtype, int op, void* comm, void* stream);
  int (*reduce)(const void* in, void* out, size_t count, int dtype, int op, int root, void* comm, void* stream);
  int (*broadcast)(const void* in, void* out, size_t count, int dtype, int root, void* comm, void* stream);
  int (*allgather)(const void* in, void* out, size_t in_count, int dtype, void* comm, void* stream);
  int (*reduce_scatter)(const void* in, void* out, size_t out_count, int dtype, int op, void* comm, void* stream);
  int (*send)(const void* in, size_t count, int dtype, int to, void* comm, void* stream);
  int (*recv)(void* out, size_t count, int dtype, int from, void* comm, void* stream);

  /* A sum of elements that are multiplied by a factor, which may differ from rank to rank; for the `op` of the above.
     Of floats alone. It lasts until it is destroyed; calls that were queued with it may still be on their way then. */
  int (*scaled_sum_create)(int* op, double factor, int dtype, void* comm);
  int (*scaled_sum_destroy)(int op, void* comm);
} AnelloNcclTable;

#ifdef __cplusplus
}
#endif
