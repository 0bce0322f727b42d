#include "bench/simulate/predict.hpp"

#include <algorithm>

namespace anello::bench {
namespace {

class Predictor {
 public:
  Predictor(const Job& job, const Cluster& cluster, std::uint64_t elem_bytes, const Limits& limits)
      : job_(job),
        cluster_(cluster),
        elem_bytes_(elem_bytes),
        limits_(limits),
        in_slabs_(job.slab_elems > 0 && job.count > job.slab_elems),
        unit_(in_slabs_ ? job.slab_elems : std::max<std::uint64_t>(1, cluster.grain_bytes / elem_bytes)),
        min_(std::min(job.count, std::max(unit_ * (in_slabs_ ? kMinSlabs : kMinGrains), min_of_parts()))) {}

  Prediction predict() {
    choose_symmetry();
    const std::uint64_t max = affordable();
    const SimulationResult at_least = busiest();
    if (work(max) > kFarTooMany * limits_.messages) return {at_least, symmetry_, 0};
    Prediction prediction{run(max), symmetry_, max};
    if (max == job_.count) return prediction;
    const std::uint64_t half = max / 2 / unit_ * unit_;
    const double slope = (prediction.result.us - run(half).us) / double(max - half);
    prediction.result.us = std::max(at_least.us, prediction.result.us + slope * double(job_.count - max));
    return prediction;
  }

 private:
  // Minimum numbers to simulate, so that the pipeline fills.
  static constexpr std::uint64_t kMinSlabs = 2, kMinGrains = 16;
  // A case with more messages than this multiple of the limit is not simulated.
  static constexpr double kFarTooMany = 10;

  // The extrapolation also simulates half of this count, and even then each part must have an element.
  std::uint64_t min_of_parts() const {
    return facts_of(job_.kind).parts ? 2 * up_to_multiple(std::uint64_t(job_.world), unit_) : 0;
  }

  std::optional<SimulatedRanks> ranks_for(std::uint64_t count, Symmetry symmetry) const {
    Job job = job_;
    job.count = count;
    return simulated_ranks(job, symmetry);
  }
  SimulationResult run(std::uint64_t count) const {
    return simulate(*ranks_for(count, symmetry_), cluster_, elem_bytes_);
  }

  bool try_symmetry(Symmetry symmetry) {
    std::optional<SimulatedRanks> ranks = ranks_for(min_, symmetry);
    if (!ranks) return false;
    symmetry_ = symmetry;
    small_ = *std::move(ranks);
    return true;
  }
  void choose_symmetry() {
    if (job_.world > limits_.literal_world && try_symmetry(Symmetry::rotating_host)) return;
    try_symmetry(Symmetry::every_rank);
  }

  // Returns the number of messages for `count` elements, estimated from the plans for min_ elements.
  double work(std::uint64_t count) const {
    const double scale = double(count) / double(min_);
    const double grain = std::max(1.0, double(cluster_.grain_bytes) / double(elem_bytes_));
    return in_slabs_ ? scale * messages(small_, grain, 1) : messages(small_, grain, scale);
  }

  // Returns the job's count, halved until the work is below the limit, but at least the smallest count that can be
  // simulated.
  std::uint64_t affordable() const {
    std::uint64_t count = job_.count;
    while (work(count) > limits_.messages && count / 2 >= min_) count = count / 2 / unit_ * unit_;
    return count;
  }

  // Returns the time of the host with the most work if that host never had to wait.
  SimulationResult busiest() const {
    struct Work {
      double core_us = 0, out = 0, in = 0;
    };
    const double scale = double(job_.count) / double(min_);
    std::vector<Work> hosts(std::size_t(small_.hosts), Work{});
    for (const SimulatedRank& rank : small_.ranks) {
      Work& host = hosts[std::size_t(rank.host)];
      for (const plan::Step& step : rank.plan.steps) {
        const double bytes = double(step.range.count * elem_bytes_) * scale;
        const int peer = rank.plan.streams[step.stream].peer;
        host.core_us += core_us(cluster_, rank.plan, step, bytes);
        if (peer < 0 || peer / job_.ranks_per_host == rank.host) continue;
        (step.act == plan::Act::send ? host.out : host.in) += bytes;
      }
    }
    SimulationResult all;
    for (const Work& host : hosts) {
      const double cores_us = host.core_us / cluster_.cores_used();
      const double nic_us = std::max(host.out, host.in) / cluster_.network_rate;
      if (const double us = std::max(cores_us, nic_us); us > all.us) all = {us, cores_us / us, nic_us / us};
    }
    return all;
  }

  const Job& job_;
  const Cluster& cluster_;
  std::uint64_t elem_bytes_;
  const Limits& limits_;
  bool in_slabs_;
  std::uint64_t unit_;  // elements of a slab or a grain; the number of skipped elements is a multiple of unit_
  std::uint64_t min_;   // minimum number of elements of a simulation
  Symmetry symmetry_ = Symmetry::every_rank;
  SimulatedRanks small_;  // plans for min_ elements
};

}  // namespace

Prediction predict(const Job& job, const Cluster& cluster, std::uint64_t elem_bytes, const Limits& limits) {
  return Predictor(job, cluster, elem_bytes, limits).predict();
}

}  // namespace anello::bench
