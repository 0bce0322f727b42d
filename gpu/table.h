/* The functions of GPUs that the engine needs: a table of C functions, filled by the plugin libanello_gpu.so or by a
   test's fake. The engine itself has deadlines, staging and errors. Every function except describe() and nccl() returns
   0 or a status, which describe() puts in words; none throws. Any thread. Streams, events and memory are made on the
   calling thread's current device, and have at least one byte. A device's memory begins at a multiple of 64 KiB and
   shares no block of this size with host memory. Functions with a stream queue their work and return. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "gpu/nccl_table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ANELLO_GPU_TABLE_VERSION 7
#define ANELLO_GPU_NOT_READY (-1) /* returned by event_query only */

typedef struct AnelloGpuInfo {
  char name[64];
  char bus_id[32];
  char uuid[40]; /* unique among all devices */
  uint64_t memory_bytes;
  int major, minor; /* compute capability */
} AnelloGpuInfo;

typedef struct AnelloGpuTable {
  uint32_t version;
  const char* (*describe)(int status);

  int (*versions)(int* driver, int* runtime); /* 13000: 13.0 */
  int (*device_count)(int* count);
  int (*device_info)(int device, AnelloGpuInfo* info);
  int (*device_of)(const void* memory, int* device); /* -1: host memory */
  int (*get_device)(int* device);
  int (*set_device)(int device);
  /* Like set_device, but does nothing if the device has no context yet, because set_device would make one. */
  int (*return_to_device)(int device);

  int (*memory_create)(void** memory, size_t bytes);
  int (*memory_destroy)(void* memory);
  int (*pinned_create)(void** memory, size_t bytes);
  int (*pinned_destroy)(void* memory);
  int (*copy)(void* to, const void* from, size_t bytes, struct CUstream_st* stream); /* between any two memories */

  int (*zero)(void* memory, size_t bytes, struct CUstream_st* stream);

  /* Independent of the default stream. Work that waits on an urgent stream begins first. */
  int (*stream_create)(struct CUstream_st** stream, int urgent);
  int (*stream_destroy)(struct CUstream_st* stream);
  int (*stream_wait)(struct CUstream_st* stream, void* event);
  int (*is_capturing)(struct CUstream_st* stream, int* capturing); /* 1: its work is captured into a graph */
  int (*ignore_captures)(void); /* the calling thread's calls do not disturb captures of other threads */

  int (*event_create)(void** event);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, struct CUstream_st* stream);
  int (*event_query)(void* event); /* ANELLO_GPU_NOT_READY: the recorded work is not done */

  /* Captures work that the calling thread queues on the stream from capture_begin to capture_end into a graph, with its
     addresses and values. Meanwhile that thread must not allocate or free memory, nor query events: such a call is
     refused, and then the capture's end is refused too. capture_end ends the capture in any case. */
  int (*capture_begin)(struct CUstream_st* stream);
  int (*capture_end)(struct CUstream_st* stream, void** graph);
  int (*graph_launch)(void* graph, struct CUstream_st* stream);
  int (*graph_destroy)(void* graph); /* the graph may still be running */

  const AnelloNcclTable* (*nccl)(const char** why_not); /* null, with the reason, if NCCL cannot be used */
} AnelloGpuTable;

/* The plugin's one symbol. */
__attribute__((visibility("default"))) const AnelloGpuTable* anello_gpu_table(void);

#ifdef __cplusplus
}
#endif
