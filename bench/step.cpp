#include <CLI/CLI.hpp>
#include <algorithm>
#include <anello/anello.hpp>
#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <iostream>
#include <memory>
#include <numeric>
#include <thread>

#include "bench/commands.hpp"
#include "bench/ours.hpp"
#include "bench/statistics.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

using std::chrono::steady_clock;

struct StepRequest {
  std::size_t parameters = 25'000'000, tensors = 60;
  int rounds = 9;
  bool idle = false;
  double backward_ms = 0;                    // 0: the backward pass takes the time of the blocking allreduce
  std::vector<std::uint64_t> buckets = {0};  // bytes; 0: the library's own choice
};

double ms_since(steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(steady_clock::now() - start).count();
}

// The sizes are like those of a residual network: weights that grow sixteenfold from the first layer to the last, with
// small tensors between them, such as those of a normalisation.
std::vector<std::size_t> sizes_of(const StepRequest& request) {
  std::vector<double> weights;
  for (std::size_t k = 0; k < request.tensors; k++) {
    const double depth = double(k) / double(request.tensors);
    weights.push_back(std::pow(16.0, depth) * (k % 2 == 0 ? 1 : 1.0 / 500));
  }
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::size_t> sizes;
  for (const double weight : weights)
    sizes.push_back(std::max<std::size_t>(1, std::size_t(weight / all * double(request.parameters))));
  return sizes;
}

// Replaces a part of a backward pass: does `rounds` rounds of arithmetic in registers. If `idle`, sleeps `rounds`
// nanoseconds instead, because a backward pass on a GPU leaves the core free.
double compute(std::uint64_t rounds, bool idle) {
  if (idle) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(rounds));
    return 0;
  }
  std::array<double, 8> lanes{1, 2, 3, 4, 5, 6, 7, 8};
  for (std::uint64_t k = 0; k < rounds; k++)
    for (double& lane : lanes) lane = lane * 0.999999 + 1e-6;
  return std::accumulate(lanes.begin(), lanes.end(), 0.0);
}

class Step {
 public:
  Step(World& world, const StepRequest& request) : world_(world), request_(request), sizes_(sizes_of(request)) {
    for (const std::size_t size : sizes_) gradients_.emplace_back(size);
    for (std::size_t k = 0; k < sizes_.size(); k++) {
      tensors_.emplace_back(gradients_[k]);
      named_.push_back({names_.emplace_back(text("tensor ", k)), gradients_[k]});
    }
  }

  void run() {
    warm_up();
    calibrate();
    std::vector<Gradients> buckets;
    for (const std::uint64_t bytes : request_.buckets)
      buckets.emplace_back(world_, named_, GradientOptions{.bucket_bytes = std::int64_t(bytes)});
    // The exposed time is the difference of two times in the same round, because the machine's speed changes between
    // rounds.
    std::vector<double> alone, blocking;
    std::vector<std::vector<double>> bucketed(buckets.size());
    for (int round = 0; round <= request_.rounds; round++) {
      const bool counts = round > 0;  // in the first round, Gradients records the order of the gradients
      const auto note = [&](std::vector<double>& times, double ms) {
        if (counts) times.push_back(ms);
      };
      const double base = timed([&] { backward([](std::size_t) {}); });
      note(alone, base);
      note(blocking, timed([&] {
                       backward([](std::size_t) {});
                       reduce_all();
                     }) - base);
      for (std::size_t k = 0; k < buckets.size(); k++) note(bucketed[k], timed([&] { step(buckets[k]); }) - base);
    }
    report(median(alone), median(blocking), bucketed, buckets);
  }

 private:
  void warm_up() {
    for (int k = 0; k < 2; k++) reduce_all();
  }

  // Returns the time of the slowest rank.
  template <class Body>
  double timed(Body body) {
    world_.barrier();
    const auto start = steady_clock::now();
    body();
    double ms = ms_since(start);
    world_.allreduce(std::span(&ms, 1), Op::max);
    return ms;
  }

  // Sets rounds_each_. All ranks calibrate at the same time, because they also compute at the same time in training.
  void calibrate() {
    constexpr std::uint64_t kGuess = 100'000;
    constexpr int kTrials = 4;
    const double ms = request_.backward_ms > 0 ? request_.backward_ms : timed([&] { reduce_all(); });
    rounds_each_ = kGuess;
    for (int k = 0; k < kTrials; k++) {
      const double taken_ms = timed([&] { backward([](std::size_t) {}); });
      rounds_each_ = std::uint64_t(double(rounds_each_) * ms / taken_ms) + 1;
    }
  }

  // Gradients become ready from the last tensor to the first.
  template <class Ready>
  void backward(Ready ready) {
    const Phase phase(world_, "backward");
    for (std::size_t k = sizes_.size(); k-- > 0;) {
      sink_ = compute(rounds_each_, request_.idle);
      std::ranges::fill(gradients_[k], float(world_.rank()));
      ready(k);
    }
  }

  void reduce_all() { world_.allreduce(std::span<const Tensor>(tensors_), Op::average); }

  void step(Gradients& gradients) {
    gradients.begin();
    backward([&](std::size_t k) { gradients.ready(k); });
    gradients.finish();
    const float expected = float(world_.size() - 1) / 2;
    for (const auto& each : gradients_)
      if (each.front() != expected || each.back() != expected) throw Error(ErrorCode::protocol, "a wrong average");
  }

  void report(double alone, double blocking, const std::vector<std::vector<double>>& bucketed,
              const std::vector<Gradients>& buckets) const {
    if (world_.rank() != 0) return;
    std::cout << text("# ", world_.layout(), ", ", request_.tensors, " tensors, ", request_.parameters,
                      " parameters, median of ", request_.rounds, " steps\n");
    std::cout << text("backward alone ", alone, " ms, and one blocking allreduce: exposed ", blocking, " ms\n");
    for (std::size_t k = 0; k < bucketed.size(); k++) {
      const double exposed = median(bucketed[k]);
      const std::string size = request_.buckets[k] == 0 ? "suitable size" : text(request_.buckets[k], " bytes");
      std::cout << text(buckets[k].buckets().size(), " buckets of ", size, ": exposed ", exposed, " ms, ",
                        100 * exposed / blocking, " % of the blocking one\n");
    }
  }

  World& world_;
  const StepRequest& request_;
  std::vector<std::size_t> sizes_;
  std::vector<std::vector<float>> gradients_;
  std::vector<Tensor> tensors_;
  std::deque<std::string> names_;
  std::vector<Gradient> named_;
  std::uint64_t rounds_each_ = 0;
  volatile double sink_ = 0;
};

int run(const StepRequest& request) {
  return in_world(Settings::from_environment(), [&](World& world) {
    Step(world, request).run();
    return 0;
  });
}

void add_step_flags(CLI::App& command, StepRequest& request) {
  command.add_option("--parameters", request.parameters, "number of parameters in all tensors together (25000000)")
      ->check(CLI::PositiveNumber);
  command.add_option("--tensors", request.tensors, "number of tensors, each with a gradient (60)")
      ->check(CLI::PositiveNumber);
  command
      .add_option("--backward", request.backward_ms,
                  "milliseconds of computing in the backward pass (the time of the allreduce)")
      ->check(CLI::NonNegativeNumber);
  command.add_flag("--idle", request.idle, "the backward pass leaves the core free, as one on a GPU does");
  command
      .add_option("--buckets", request.buckets,
                  "most bytes of a bucket (0: the library's own choice); several are compared")
      ->delimiter(',');
  command.add_option("-r", request.rounds, "steps of each kind, in turn (9)")->check(CLI::PositiveNumber);
}

}  // namespace

Command step_command() {
  return {"step", "a training step: how much communication the backward pass does not hide",
          [](CLI::App& command) -> std::function<int()> {
            const auto request = std::make_shared<StepRequest>();
            add_step_flags(command, *request);
            return [request] { return run(*request); };
          }};
}

}  // namespace anello::bench
