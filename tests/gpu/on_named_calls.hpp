// Agendas whose operations take tensors of fake GPUs.
#pragma once
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <numeric>

#include "gpu/named_calls.hpp"
#include "ring/agenda/scheduler.hpp"
#include "tests/gpu/gpus_of.hpp"

namespace anello {

using agenda::Scheduler;
using agenda::Verb;

// A tensor of floats on this rank's GPU.
class OnGpu {
 public:
  OnGpu(World& world, std::vector<float> values)
      : device_(fake::device(world.local_rank() % 4)),
        memory_(gpu::make_memory(device_, values.size() * sizeof(float))),
        count_(values.size()) {
    std::ranges::copy(values, floats());
  }
  agenda::ArrayView view() const { return {memory_.get(), {count_}, DType::f32}; }
  agenda::OnGpu place(GpuStream stream = nullptr) const { return {int(device_.id), stream}; }
  std::vector<float> values() const { return {floats(), floats() + count_}; }
  float* floats() const { return static_cast<float*>(memory_.get()); }

 private:
  gpu::Device device_;
  gpu::DeviceMemory memory_;
  std::size_t count_;
};

// `fails`: a call of the fake that fails once in the thread that carries out operations. `faults`: NCCL's faults.
inline std::unique_ptr<gpu::NamedCalls> calls_of(World& world, const Choice& choice, bool has_plugin = true,
                                                 const std::string& fails = {}, const fake::NcclFaults& faults = {}) {
  std::vector<int> all(std::size_t(world.size()));
  std::iota(all.begin(), all.end(), 0);
  const Group ranks = world.group(all), moves = world.group(all);
  const auto find = [has_plugin] {
    if (!has_plugin) throw Error(ErrorCode::unsupported, "the plugin is not here");
    return load();
  };
  const auto make = [&world, ranks, moves, choice, find, fails, faults](std::optional<int> device) {
    fake::nccl_moves_with(moves);
    fake::nccl_faults() = faults;
    Choice its = choice;
    its.device = device.value_or(world.local_rank() % 4);
    GpuGroup made = GpuGroupAccess::make(std::make_unique<GpuGroupAccess::Impl>(world, ranks, its, find));
    if (!fails.empty()) fake::fail(fails);
    return made;
  };
  return std::make_unique<gpu::NamedCalls>(
      ranks, gpu::NamedCalls::Makers{[]() -> const AnelloGpuTable& { return fake::table(); }, make});
}

// Runs `program` with schedulers whose agendas use the ranks' GPUs. The schedulers end in good order.
inline void run_agendas(int ranks, const std::string& backend, const std::function<void(World&, Scheduler&)>& program) {
  run_world(ranks, [&](World& world) {
    const auto scheduler = Scheduler::make(world);
    scheduler->use(calls_of(world, {.backend = backend}));
    program(world, *scheduler);
    const auto barrier = scheduler->submit({.verb = Verb::barrier, .name = "end of test"}, true);
    EXPECT_TRUE(scheduler->wait(*barrier));
    scheduler->close();
  });
  fake::wait_for_all();
  EXPECT_EQ(fake::alive(), 0);
  EXPECT_EQ(fake::nccl_alive(), 0);
}

inline void wait(Scheduler& scheduler, const Scheduler::Handle& operation) {
  ASSERT_TRUE(scheduler.wait(*operation));
  if (operation->error()) throw Error(*operation->error());
}

}  // namespace anello
