/* What the engine asks of GPUs: a table of C functions, filled by the plugin libanello_gpu.so, which alone knows CUDA, or
   by a test's fake. Deadlines, staging and errors are the engine's. Every function but describe() returns 0 or a status,
   which describe() puts in words; none throws. Any thread; streams, events and memory are made on the calling thread's
   current device. Work that was queued on a stream goes on after the call. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "gpu/nccl_table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ANELLO_GPU_TABLE_VERSION 2
#define ANELLO_GPU_NOT_READY (-1) /* of event_query alone */

typedef struct AnelloGpuInfo {
  char name[64];
  char bus_id[32];
  char uuid[40]; /* of no other device anywhere */
  uint64_t memory_bytes;
  int major, minor; /* compute capability */
} AnelloGpuInfo;

typedef struct AnelloGpuTable {
  uint32_t version;
  const char* (*describe)(int status);

  int (*versions)(int* driver, int* runtime); /* 13000: 13.0 */
  int (*device_count)(int* count);
  int (*device_info)(int device, AnelloGpuInfo* info);
  int (*device_of)(const void* memory, int* device); /* -1: the host's */
  int (*get_device)(int* device);
  int (*set_device)(int device);
  /* The same, unless nothing is on that device yet: to make it current would set it up. */
  int (*return_to_device)(int device);

  int (*memory_create)(void** memory, size_t bytes);
  int (*memory_destroy)(void* memory);
  int (*pinned_create)(void** memory, size_t bytes);
  int (*pinned_destroy)(void* memory);
  int (*copy)(void* to, const void* from, size_t bytes, void* stream); /* between any two memories */

  int (*zero)(void* memory, size_t bytes, void* stream);

  int (*stream_create)(void** stream); /* does not wait for the default stream */
  int (*stream_destroy)(void* stream);
  int (*stream_wait)(void* stream, void* event);

  int (*event_create)(void** event);
  int (*event_destroy)(void* event);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event); /* ANELLO_GPU_NOT_READY: what was recorded is not done */

  const AnelloNcclTable* (*nccl)(const char** why_not); /* null, and why, if NCCL cannot be used */
} AnelloGpuTable;

/* The plugin's one symbol. */
__attribute__((visibility("default"))) const AnelloGpuTable* anello_gpu_table(void);

#ifdef __cplusplus
}
#endif
