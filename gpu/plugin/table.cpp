// Fills the table with CUDA's runtime. Each function makes the CUDA call of the same name, and does little else.
#include "gpu/table.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "gpu/plugin/plugin.hpp"

namespace {

const char* describe(int status) {
  return cudaGetErrorString(static_cast<cudaError_t>(status));
}

// Returns the status and clears the error, because otherwise later calls of the runtime would return it again.
int taken(cudaError_t status) {
  if (status != cudaSuccess) (void)cudaGetLastError();
  return static_cast<int>(status);
}

cudaEvent_t event_of(void* event) {
  return static_cast<cudaEvent_t>(event);
}

int versions(int* driver, int* runtime) {
  const cudaError_t status = cudaDriverGetVersion(driver);
  return taken(status == cudaSuccess ? cudaRuntimeGetVersion(runtime) : status);
}

// Sets the count first, because without a driver the runtime does not set it.
int device_count(int* count) {
  *count = 0;
  return taken(cudaGetDeviceCount(count));
}

int device_info(int device, AnelloGpuInfo* info) {
  *info = {};
  cudaDeviceProp properties{};
  cudaError_t status = cudaGetDeviceProperties(&properties, device);
  if (status == cudaSuccess) status = cudaDeviceGetPCIBusId(info->bus_id, sizeof info->bus_id, device);
  std::memcpy(info->name, properties.name, std::min(sizeof info->name, sizeof properties.name) - 1);
  for (int i = 0; i < 16; i++)
    std::snprintf(info->uuid + 2 * i, 3, "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(properties.uuid.bytes[i])));
  info->memory_bytes = properties.totalGlobalMem;
  info->major = properties.major;
  info->minor = properties.minor;
  return taken(status);
}

// True if the device has a context. Only the driver can answer this question. The runtime has already loaded the
// driver. The driver is called directly, because different versions of the runtime use different driver calls for this
// question.
bool is_set_up(int device) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  static const auto state_of = reinterpret_cast<decltype(&cuDevicePrimaryCtxGetState)>(
      driver ? dlsym(driver, "cuDevicePrimaryCtxGetState") : nullptr);
  unsigned flags = 0;
  int active = 0;
  return state_of && state_of(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

int capture_end(cudaStream_t stream, void** graph) {
  cudaGraph_t captured = nullptr;
  cudaError_t status = cudaStreamEndCapture(stream, &captured);
  cudaGraphExec_t ready = nullptr;
  if (status == cudaSuccess) status = cudaGraphInstantiate(&ready, captured, 0);
  if (captured) (void)cudaGraphDestroy(captured);
  *graph = ready;
  return taken(status);
}

int device_of(const void* memory, int* device) {
  cudaPointerAttributes attributes{};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, memory);
  const bool is_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
  *device = is_device ? attributes.device : -1;
  return taken(status);
}

}  // namespace

const AnelloGpuTable* anello_gpu_table() {
  static const AnelloGpuTable table = {
      .version = ANELLO_GPU_TABLE_VERSION,
      .describe = describe,
      .versions = versions,
      .device_count = device_count,
      .device_info = device_info,
      .device_of = device_of,
      .get_device = [](int* device) { return taken(cudaGetDevice(device)); },
      .set_device = [](int device) { return taken(cudaSetDevice(device)); },
      .return_to_device = [](int device) { return is_set_up(device) ? taken(cudaSetDevice(device)) : 0; },
      .memory_create = [](void** memory, std::size_t bytes) { return taken(cudaMalloc(memory, bytes)); },
      .memory_destroy = [](void* memory) { return taken(cudaFree(memory)); },
      .pinned_create = [](void** memory,
                          std::size_t bytes) { return taken(cudaHostAlloc(memory, bytes, cudaHostAllocPortable)); },
      .pinned_destroy = [](void* memory) { return taken(cudaFreeHost(memory)); },
      .copy = [](void* to, const void* from, std::size_t bytes,
                 cudaStream_t stream) { return taken(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream)); },
      .zero = [](void* memory, std::size_t bytes,
                 cudaStream_t stream) { return taken(cudaMemsetAsync(memory, 0, bytes, stream)); },
      .stream_create =
          [](cudaStream_t* stream, int urgent) {
            int last = 0, first = 0;
            const cudaError_t status = cudaDeviceGetStreamPriorityRange(&last, &first);
            if (status != cudaSuccess) return taken(status);
            return taken(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, urgent ? first : last));
          },
      .stream_destroy = [](cudaStream_t stream) { return taken(cudaStreamDestroy(stream)); },
      .stream_wait = [](cudaStream_t stream,
                        void* event) { return taken(cudaStreamWaitEvent(stream, event_of(event), 0)); },
      .is_capturing =
          [](cudaStream_t stream, int* capturing) {
            cudaStreamCaptureStatus found = cudaStreamCaptureStatusNone;
            const cudaError_t status = cudaStreamIsCapturing(stream, &found);
            *capturing = found == cudaStreamCaptureStatusNone ? 0 : 1;
            return taken(status);
          },
      .ignore_captures =
          [] {
            cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
            return taken(cudaThreadExchangeStreamCaptureMode(&mode));
          },
      .event_create =
          [](void** event) {
            return taken(cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t*>(event), cudaEventDisableTiming));
          },
      .event_destroy = [](void* event) { return taken(cudaEventDestroy(event_of(event))); },
      .event_record = [](void* event, cudaStream_t stream) { return taken(cudaEventRecord(event_of(event), stream)); },
      .event_query =
          [](void* event) {
            const cudaError_t status = cudaEventQuery(event_of(event));
            return status == cudaErrorNotReady ? (taken(status), ANELLO_GPU_NOT_READY) : taken(status);
          },
      .capture_begin =
          [](cudaStream_t stream) { return taken(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)); },
      .capture_end = capture_end,
      .graph_launch =
          [](void* graph, cudaStream_t stream) {
            return taken(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream));
          },
      .graph_destroy = [](void* graph) { return taken(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph))); },
      .nccl = anello_nccl_table,
  };
  return &table;
}
