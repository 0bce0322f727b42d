// Prints how much time of the host our own code needs for a call, with tables that do nothing. Needs no GPU. Started by
// hand; on a busy machine the figures are larger. Instructions of a training step: valgrind --tool=callgrind
// --toggle-collect='*one_step*'
#include <algorithm>
#include <anello/gpu.hpp>
#include <anello/gpu_gradients.hpp>
#include <anello/testing.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <vector>

#include "gpu/gpu_group.hpp"
#include "tests/gpu/idle_tables.hpp"
#include "trainer/cuda/cuda_backend.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"

namespace {

using namespace anello;

double median_us(int calls, const std::function<void()>& call) {
  constexpr int kRounds = 101;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; round++) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; i++) call();
    rounds.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() /
                     calls);
  }
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  return rounds[kRounds / 2];
}

GpuGroup gpus_of(World& world) {
  return GpuGroupAccess::make(std::make_unique<GpuGroupAccess::Impl>(world, world, GpuGroupAccess::Impl::Options{}, [] {
    return GpuGroupAccess::Impl::Tables{&idle_gpu(), &idle_kernels()};
  }));
}

// NCCL's path, in a world of two threads.
void allreduce() {
  run_world(2, [](World& world) {
    idle_gpu().set_device(world.rank());
    GpuGroup gpus = gpus_of(world);
    std::array<float, 1> value{};
    for (int rank = 0; rank < world.size(); rank++) {
      if (rank == world.rank())
        std::printf("allreduce of 4 bytes, rank %d: %.2f us\n", rank,
                    median_us(1000, [&] { gpus.allreduce(value, nullptr); }));
      world.barrier();
    }
  });
}

// The default model and batch of anello-train.
class Training {
 public:
  explicit Training(World& world)
      : gpus_(gpus_of(world)), backend_({&idle_gpu(), gpu::DeviceId{gpus_.device()}}, idle_kernels()) {
    data_.rows = data_.columns = 8;
    data_.train.pixels.resize(1000 * data_.image_size());
    data_.train.labels.resize(1000);
    std::vector<Gradient> list;
    for (auto& layer : model_.layer_gradients()) list.push_back({layer.name, layer.values});
    gradients_.emplace(gpus_, list, backend_.stream());
    std::iota(samples_.begin(), samples_.end(), 0U);
  }
  void __attribute__((noinline)) one_step() {
    gradients_->begin(1.0 / 32);
    model_.train(data_, data_.train, samples_, [this](std::size_t gradient) { gradients_->ready(gradient); });
    gradients_->finish();
    optimizer_->step(model_.parameters(), model_.gradient(), 0.005F, ++count_);
  }

 private:
  static constexpr std::size_t kHidden[] = {256, 128};
  GpuGroup gpus_;
  trainer::CudaBackend backend_;
  trainer::Dataset data_;
  trainer::Model model_{backend_, 64, trainer::make_mlp(64, kHidden, 10), 1};
  std::unique_ptr<trainer::Optimizer> optimizer_ = trainer::make_optimizer("sgd", backend_, model_.parameters().size());
  std::optional<GpuGradients> gradients_;
  std::vector<std::uint32_t> samples_ = std::vector<std::uint32_t>(32);
  std::uint64_t count_ = 0;
};

}  // namespace

int main() {
  allreduce();
  for (const int ranks : {1, 2}) {
    std::promise<void> measured;
    run_world(ranks, [&](World& world) {
      idle_gpu().set_device(world.rank());
      Training training(world);
      if (world.rank() == 1) return measured.get_future().wait();  // takes no processor time, unlike a barrier
      std::printf("step of training, batch 32, %s: %.2f us\n", world.size() == 1 ? "one rank" : "NCCL",
                  median_us(1000, [&] { training.one_step(); }));
      measured.set_value();
    });
  }
}
