// Exercises on a fake GPU.
#pragma once
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/gpu/fake_gpu.hpp"
#include "tests/gpu/on_gpu.hpp"

namespace anello::gpu {

// Queues all exercises on one stream of this rank, and checks the results afterwards.
inline void expect_right(Collectives& on_gpu, World& world, const Device& device, std::vector<Exercise> exercises) {
  const Stream stream = make_stream(device);
  std::vector<std::unique_ptr<Part>> parts;
  for (Exercise& exercise : exercises) {
    exercise.world = world.size();
    parts.push_back(std::make_unique<Part>(exercise, world.rank()));
    carry_out(on_gpu, world.rank(), exercise, tensors_of(*parts.back()), stream.get());
  }
  fake::finish(stream.get());
  for (std::size_t k = 0; k < parts.size(); k++)
    EXPECT_EQ(parts[k]->wrong(), "") << describe(exercises[k]) << ", rank " << world.rank();
}

// In a world of two ranks: a call waits for work that was queued before the call, and work that is queued after the
// call sees its result.
inline void expect_the_streams_order(Collectives& on_gpu, const Device& device) {
  const Stream stream = make_stream(device);
  std::vector<int> values(1000), seen;
  for (int round = 1; round <= 5; round++) {
    fake::queue(stream.get(), [&, round] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      values.assign(values.size(), round);
    });
    on_gpu.carry_out(group::calls::allreduce(values, values, Op::sum, {}), stream.get());
    fake::queue(stream.get(), [&] { seen = values; });
    fake::finish(stream.get());
    EXPECT_EQ(seen, std::vector<int>(1000, 2 * round));
  }
}

}  // namespace anello::gpu
