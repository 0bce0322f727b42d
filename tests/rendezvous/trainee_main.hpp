// The program of a trainee in C++: a process of an elastic job, for any way of adding the gradients of the ranks.
#pragma once
#include <unistd.h>

#include <anello/anello.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "trainee.hpp"

namespace anello::trainee {

using Gradient = std::vector<double>;
using Sum = std::function<void(Gradient&)>;  // adds those of all ranks

inline void report(const elastic::Change& change, const Gradient& weights) {
  std::printf("world %u: rank %d of %d at %llu, %zu got %llu bytes, paused %lld us, weights %.0f\n", change.generation,
              change.rank, change.size, static_cast<unsigned long long>(change.revision), change.receivers.size(),
              static_cast<unsigned long long>(change.bytes),
              static_cast<long long>(std::chrono::duration_cast<std::chrono::microseconds>(change.paused).count()),
              digest(weights));
}

// A further entry of the state, which takes time to send. The entry differs between processes until they have received
// that of the first process. Prints a line when the state is about to be sent at the beginning of a world.
class Ballast {
 public:
  Ballast(elastic::State& state, std::size_t bytes) : bytes_(bytes, static_cast<unsigned char>(getpid())) {
    if (bytes == 0) return;
    state.add("ballast", std::as_writable_bytes(std::span(bytes_)));
    const auto save = [this] {
      if (!trains_) std::printf("saves %d\n", ++saved_);
      return std::string();
    };
    state.add_small("nothing", save, [](std::string_view) {});
  }
  void mark(std::uint64_t step) {
    if (!bytes_.empty()) trainee::mark(bytes_, step);
  }
  // While the result exists, a comparison may ask for the texts, and no world begins.
  [[nodiscard]] std::shared_ptr<void> training() {
    trains_ = true;
    return {nullptr, [this](void*) { trains_ = false; }};
  }
  bool is_marked(std::uint64_t steps) const { return trainee::is_marked(bytes_, steps); }

 private:
  std::vector<unsigned char> bytes_;
  int saved_ = 0;
  bool trains_ = false;
};

// `arguments`: STEPS MILLISECONDS WORLD [WEIGHTS [BALLAST]]; BALLAST is the number of bytes of the ballast. A step
// takes MILLISECONDS until WORLD has begun, and then as little time as possible. Prints a line for each world, with the
// state in which it begins, and the result. `sum_in` returns the function that adds up the gradients in a world.
inline int run(const std::vector<const char*>& arguments, const std::function<Sum(elastic::Job&)>& sum_in) {
  if (arguments.size() < 3) return 2;
  const std::uint64_t steps = std::strtoull(arguments[0], nullptr, 10);
  const std::chrono::milliseconds work(std::atoi(arguments[1]));
  const std::uint32_t fast_from = std::uint32_t(std::atoi(arguments[2]));
  Gradient weights(arguments.size() > 3 ? std::strtoull(arguments[3], nullptr, 10) : 100);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  elastic::State state;
  state.add("weights", std::as_writable_bytes(std::span(weights)));
  Ballast ballast(state, arguments.size() > 4 ? std::strtoull(arguments[4], nullptr, 10) : 0);
  const auto train = [&](elastic::Job& job) {
    const auto training = ballast.training();
    Gradient gradient(weights.size());
    const Sum sum = sum_in(job);
    const int rank = job.world().rank(), size = job.world().size();
    while (state.revision() < steps) {
      gradient.assign(weights.size(), 0);
      add_gradient(gradient, state.revision(), kSamples * rank / size, kSamples * (rank + 1) / size);
      if (job.change().generation < fast_from) std::this_thread::sleep_for(work);
      sum(gradient);
      job.commit([&] {
        update(weights, gradient);
        differ(weights, state.revision());
        ballast.mark(state.revision());
      });
    }
  };
  if (!elastic::run(state, train, {.on_change = [&](const auto& change) { report(change, weights); }})) {
    std::printf("the others have finished\n");
    return 0;
  }
  if (!ballast.is_marked(steps)) {
    std::printf("the ballast is wrong\n");
    return 1;
  }
  std::printf("weights %.0f at %llu\n", digest(weights), static_cast<unsigned long long>(state.revision()));
  return 0;
}

}  // namespace anello::trainee
