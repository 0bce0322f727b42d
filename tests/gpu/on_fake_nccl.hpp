// NCCL's path over a fake NCCL, for tests: a communicator of all ranks of a world, each on its own fake GPU.
#pragma once
#include <memory>
#include <numeric>
#include <vector>

#include "gpu/nccl.hpp"
#include "tests/gpu/fake_nccl.hpp"
#include "tests/gpu/on_fake_gpu.hpp"
#include "tests/gpu/verbs.hpp"

namespace anello::gpu {

inline constexpr NcclCommunicator::Limits kLimits{};

inline std::vector<int> all_ranks(const World& world) {
  std::vector<int> all(std::size_t(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

inline std::unique_ptr<Verbs<Nccl>> nccl(World& world, const NcclCommunicator::Limits& limits = kLimits,
                                         bool compare = false, const AnelloKernelTable* kernels = nullptr) {
  fake::nccl_moves_with(world.group(all_ranks(world)));
  return std::make_unique<Verbs<Nccl>>(world, fake::device(world.rank()), Nccl::Tables{&fake::nccl_table(), kernels},
                                       limits, compare);
}

}  // namespace anello::gpu
