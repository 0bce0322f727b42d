// Implements the C API for GPU memory by calls of the C++ API.
#include <anello/gpu.h>

#include <anello/gpu.hpp>
#include <anello/gpu_gradients.hpp>

#include "gpu/gpu_group.hpp"
#include "gpu/plugin_loader.hpp"
#include "rendezvous/c_api/call.hpp"
#include "ring/group/group_impl.hpp"

struct anello_gpu_group {
  anello::GpuGroup gpus;
  anello_group ranks{gpus.group()};
};
struct anello_gpu_memory {
  anello::GpuMemory memory;
};
struct anello_gpu_gradients {
  anello::GpuGradients gradients;
};

using anello::GroupAccess;
using namespace anello::c_api;

namespace {

anello::GpuGroup make(anello_world* world, const anello_gpu_options* options) {
  const anello_gpu_options given = known(options, anello_gpu_options ANELLO_GPU_OPTIONS_INIT);
  anello::GpuOptions its;
  if (given.device != -1) its.device = given.device;
  anello::World& all = required(world, "world").world;
  return given.ranks ? anello::GpuGroup(all, given.ranks->group, its) : anello::GpuGroup(all, its);
}

// Runs call(gpus) and converts exceptions to a status. Convert the caller's arguments inside `call`.
template <class Call>
anello_status queue(anello_gpu_group* gpus, Call call) {
  return guarded([&] { call(required(gpus, "GPU group").gpus); });
}

}  // namespace

int anello_gpu_available(void) {
  return guarded([] { anello::gpu::installed(anello::Settings::from_environment().gpu_plugin); }) == ANELLO_OK;
}
anello_status anello_gpu_create(anello_world* world, const anello_gpu_options* options, anello_gpu_group** gpus) {
  return guarded([&] {
    required(gpus, "out parameter");
    *gpus = new anello_gpu_group{make(world, options)};
  });
}
anello_status anello_gpu_split(anello_gpu_group* gpus, int colour, int key, anello_gpu_group** part) {
  return guarded([&] {
    required(part, "out parameter");
    *part = new anello_gpu_group{required(gpus, "GPU group").gpus.split(colour, key)};
  });
}
void anello_gpu_free(anello_gpu_group* gpus) {
  delete gpus;
}
int anello_gpu_device(const anello_gpu_group* gpus) {
  return of(gpus, "GPU group", [](auto& its) { return its.gpus.device(); });
}
const char* anello_gpu_backend(const anello_gpu_group* gpus) {
  return of(gpus, "GPU group", [](auto& its) { return its.gpus.backend().data(); });
}
const char* anello_gpu_reason(const anello_gpu_group* gpus) {
  return of(gpus, "GPU group", [](auto& its) { return its.gpus.reason().c_str(); });
}
anello_group* anello_gpu_ranks(anello_gpu_group* gpus) {
  return of(gpus, "GPU group", [](auto& its) { return &its.ranks; });
}

anello_status anello::c_api::carry_out(anello_gpu_group* gpus, const anello_call& asked, CUstream_st* stream) {
  return queue(gpus, [&](anello::GpuGroup& its) {
    check_members(asked);
    const auto options = [&] { return Given(asked.options).plain(); };
    if (asked.kind == ANELLO_SEND) return its.send(input_of(asked.input), asked.to, stream, options());
    if (asked.kind == ANELLO_RECV) return its.recv(tensor_of(asked.output), asked.from, stream, options());
    if (asked.kind == ANELLO_EXCHANGE)
      return its.exchange(input_of(asked.input), asked.to, tensor_of(asked.output), asked.from, stream, options());
    if (asked.kind == ANELLO_BARRIER) return its.barrier(stream, options());
    std::vector<anello::run::Buffer::Piece> pieces;
    anello::GpuGroupAccess::impl(its).carry_out(call_of(asked, GroupAccess::self(its.group()), pieces), stream);
  });
}

anello_status anello_gpu_synchronize(anello_gpu_group* gpus, CUstream_st* stream) {
  return queue(gpus, [&](anello::GpuGroup& its) { its.synchronize(stream); });
}
anello_status anello_gpu_allocate(anello_gpu_group* gpus, size_t bytes, anello_gpu_memory** memory) {
  return queue(gpus, [&](anello::GpuGroup& its) {
    anello_gpu_memory*& out = required(memory, "out parameter");
    out = new anello_gpu_memory{its.allocate(bytes)};
  });
}
anello_status anello_gpu_register(anello_gpu_group* gpus, void* data, size_t bytes, anello_gpu_memory** memory) {
  return queue(gpus, [&](anello::GpuGroup& its) {
    anello_gpu_memory*& out = required(memory, "out parameter");
    out = new anello_gpu_memory{its.register_memory(data, bytes)};
  });
}
void* anello_gpu_memory_data(const anello_gpu_memory* memory) {
  return of(memory, "memory", [](auto& its) { return its.memory.data(); });
}
void anello_gpu_memory_free(anello_gpu_memory* memory) {
  delete memory;
}

anello_status anello_gpu_gradients_create(anello_gpu_group* gpus, const anello_gradient* list, size_t count,
                                          CUstream_st* stream, const anello_gradient_options* options,
                                          anello_gpu_gradients** gradients) {
  return guarded([&] {
    required(gradients, "out parameter");
    *gradients =
        new anello_gpu_gradients{{required(gpus, "GPU group").gpus, gradients_of(list, count), stream, given(options)}};
  });
}
anello_status anello_gpu_gradients_begin(anello_gpu_gradients* gradients, double factor) {
  return guarded([&] { required(gradients, "gradients").gradients.begin(factor); });
}
anello_status anello_gpu_gradients_ready(anello_gpu_gradients* gradients, size_t gradient) {
  return guarded([&] { required(gradients, "gradients").gradients.ready(gradient); });
}
anello_status anello_gpu_gradients_finish(anello_gpu_gradients* gradients, anello_step_stats* stats) {
  return guarded([&] { finish(required(gradients, "gradients").gradients, stats); });
}
void anello_gpu_gradients_free(anello_gpu_gradients* gradients) {
  delete gradients;
}
