// gpu_trainee STEPS MILLISECONDS WORLD [WEIGHTS]: a process of an elastic job that adds gradients on a fake GPU, with a
// GpuGroup in each world. ANELLO_GPU_BACKEND chooses the backend. In the first world, the rank TRAINEE_VICTIM suffers
// TRAINEE_FATE in the sixth sum: it "dies" while the others' kernels wait for it, or "breaks" its GPU for ever.
// TRAINEE_ABORTS=MILLISECONDS sets how long the end of a communicator takes.
#include <csignal>
#include <memory>
#include <string>

#include "tests/gpu/gpus_of.hpp"
#include "tests/rendezvous/trainee_main.hpp"

namespace anello {
namespace {

std::string variable(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value ? value : otherwise;
}

class Gpu {
 public:
  explicit Gpu(elastic::Job& job)
      : stream_(gpu::make_stream(fake::device(job.world().local_rank()))), gpus_(gpus_of(job.world(), choice())) {
    std::printf("world %u on GPU %d: %s\n", job.change().generation, gpus_.device(),
                std::string(gpus_.backend()).c_str());
    if (job.change().generation == 1 && variable("TRAINEE_VICTIM") == std::to_string(job.world().rank()))
      fate_ = variable("TRAINEE_FATE");
  }
  // The deleter prints this line after Gpu's members have been destroyed.
  static std::shared_ptr<Gpu> make(elastic::Job& job) {
    return {new Gpu(job), [](Gpu* gpu) {
              delete gpu;
              std::printf("left: %d communicators, %d other objects\n", fake::nccl_alive(), fake::alive());
            }};
  }

  void sum(trainee::Gradient& gradient) {
    if (++sums_ == 6 && fate_ == "dies") fake::queue(stream_.get(), [] { std::raise(SIGKILL); });
    if (sums_ == 6 && fate_ == "breaks") fake::corrupt();
    gpus_.allreduce(gradient, stream_.get(), Op::sum);
    // The watcher of NCCL's communicator finds the error, and ends the world.
    while (sums_ == 6 && fate_ == "breaks" && !gpus_.failure())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gpus_.synchronize(stream_.get());
  }

 private:
  static Choice choice() {
    Choice choice;
    choice.backend = variable("ANELLO_GPU_BACKEND", "auto");
    choice.nccl.end = std::chrono::milliseconds(500);
    return choice;
  }
  gpu::Stream stream_;  // ends after the communicator whose kernels it runs
  GpuGroup gpus_;
  std::string fate_;
  int sums_ = 0;
};

}  // namespace
}  // namespace anello

int main(int argc, char** argv) {
  using namespace anello;
  fake::nccl_faults().abort_takes_ms = std::atoi(variable("TRAINEE_ABORTS").c_str());
  try {
    return trainee::run({argv + 1, argv + argc}, [](elastic::Job& job) -> trainee::Sum {
      return [gpu = Gpu::make(job)](trainee::Gradient& gradient) { gpu->sum(gradient); };
    });
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
