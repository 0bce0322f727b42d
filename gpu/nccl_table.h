/* The functions of NCCL that the engine needs: a table of C functions, filled by the plugin libanello_gpu.so, which
   loads NCCL, or by a test's fake. Every function except the first two returns 0, ANELLO_NCCL_IN_PROGRESS or a status,
   which describe() puts in words. Element types and reductions have the values of anello::DType and anello::Op. A
   communicator is made on the calling thread's current device and does not block. While it is in progress, only state()
   and abort() may be called with it. Between group_start() and group_end() a thread's calls are combined into one. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* CUstream_st* is cudaStream_t */

#define ANELLO_NCCL_IN_PROGRESS (-1)

typedef struct AnelloNcclId {
  char bytes[128];
} AnelloNcclId;

typedef struct AnelloNcclTable {
  const char* (*describe)(int status);
  const char* (*details)(void* comm); /* of the last failure; may be null */

  int (*version)(int* version);  /* 22809: 2.28.9 */
  int (*has)(int dtype, int op); /* 1: `op` can reduce `dtype`. Functions without `op` take any type. */

  int (*unique_id)(AnelloNcclId* id);
  int (*create)(void** comm, int size, const AnelloNcclId* id, int rank);
  int (*split)(void* comm, int colour, int key, void** child);
  int (*state)(void* comm);
  int (*finalize)(void* comm); /* queued work is done when state() is no longer in progress */
  int (*destroy)(void* comm);  /* after finalize() */
  int (*abort)(void* comm);    /* instead of both; any thread; may block */

  int (*group_start)(void);
  int (*group_end)(void);
  int (*allreduce)(const void* in, void* out, size_t count, int dtype, int op, void* comm, struct CUstream_st* stream);
  int (*reduce)(const void* in, void* out, size_t count, int dtype, int op, int root, void* comm,
                struct CUstream_st* stream);
  int (*broadcast)(const void* in, void* out, size_t count, int dtype, int root, void* comm,
                   struct CUstream_st* stream);
  int (*allgather)(const void* in, void* out, size_t in_count, int dtype, void* comm, struct CUstream_st* stream);
  int (*reduce_scatter)(const void* in, void* out, size_t out_count, int dtype, int op, void* comm,
                        struct CUstream_st* stream);
  int (*send)(const void* in, size_t count, int dtype, int to, void* comm, struct CUstream_st* stream);
  int (*recv)(void* out, size_t count, int dtype, int from, void* comm, struct CUstream_st* stream);

  /* Makes an `op` for the functions above: a sum in which each rank multiplies its elements by its own factor. Only for
     floats. It may be destroyed while calls that were queued with it are running. */
  int (*scaled_sum_create)(int* op, double factor, int dtype, void* comm);
  int (*scaled_sum_destroy)(int op, void* comm);

  /* Null before NCCL 2.19. The first two functions allocate and free memory that NCCL's kernels and the network can
     reach directly, on the current device. The others register such memory, or other memory of its device, with a
     communicator, until they are undone or the communicator ends. */
  int (*memory_create)(void** memory, size_t bytes);
  int (*memory_destroy)(void* memory);
  int (*register_memory)(void* comm, void* memory, size_t bytes, void** handle);
  int (*deregister_memory)(void* comm, void* handle);
} AnelloNcclTable;

#ifdef __cplusplus
}
#endif
