// trainee STEPS MILLISECONDS WORLD [WEIGHTS [BALLAST]]: a process of an elastic job. A step takes so long until that
// world has begun, and from then on as little as possible. Prints a line for each world and its result. BALLAST: the
// bytes of a further entry; then it also prints a line when it is about to send its state.
#include "trainee.hpp"

#include <unistd.h>

#include <anello/anello.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <thread>

int main(int argc, char** argv) {
  using namespace anello;
  if (argc < 4) return 2;
  const std::uint64_t steps = std::strtoull(argv[1], nullptr, 10);
  const std::chrono::milliseconds work(std::atoi(argv[2]));
  const std::uint32_t fast_from = std::uint32_t(std::atoi(argv[3]));
  std::vector<double> weights(argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 100);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  elastic::State state;
  state.add("weights", std::as_writable_bytes(std::span(weights)));
  // Differs between processes, until they have got that of the first one.
  std::vector<unsigned char> ballast(argc > 5 ? std::strtoull(argv[5], nullptr, 10) : 0,
                                     static_cast<unsigned char>(getpid()));
  int saved = 0;
  if (!ballast.empty()) {
    state.add("ballast", std::as_writable_bytes(std::span(ballast)));
    const auto save = [&] {
      std::printf("saves %d\n", ++saved);
      return std::string();
    };
    state.add_small("nothing", save, [](std::string_view) {});
  }
  const auto train = [&](elastic::Job& job) {
    while (state.revision() < steps) {
      const int rank = job.world().rank(), size = job.world().size();
      std::vector<double> gradient(weights.size());
      trainee::add_gradient(gradient, state.revision(), trainee::kSamples * rank / size,
                            trainee::kSamples * (rank + 1) / size);
      if (job.change().generation < fast_from) std::this_thread::sleep_for(work);
      job.world().allreduce(gradient, Op::sum);
      job.commit([&] {
        trainee::update(weights, gradient);
        if (!ballast.empty()) trainee::mark(ballast, state.revision());
      });
    }
  };
  elastic::Options options;
  options.on_change = [](const elastic::Change& change) {
    std::printf("world %u: rank %d of %d at %llu, %zu got %llu bytes, paused %lld us\n", change.generation, change.rank,
                change.size, static_cast<unsigned long long>(change.revision), change.receivers.size(),
                static_cast<unsigned long long>(change.bytes),
                static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(change.paused).count()));
  };
  if (!elastic::run(state, train, options)) {
    std::printf("the others have finished\n");
    return 0;
  }
  if (!trainee::is_marked(ballast, steps)) {
    std::printf("the ballast is wrong\n");
    return 1;
  }
  std::printf("weights %.0f at %llu\n", trainee::digest(weights), static_cast<unsigned long long>(state.revision()));
}
