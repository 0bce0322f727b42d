// Rows of exercises on a fake GPU.
#pragma once
#include <memory>

#include "tests/gpu/fake_gpu.hpp"
#include "tests/gpu/on_gpu.hpp"

namespace anello::gpu {

// All in a row by this rank, on one stream of its own; only then are the results looked at.
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

}  // namespace anello::gpu
