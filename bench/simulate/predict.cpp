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
        least_(std::min(job.count, unit_ * (in_slabs_ ? kFewestSlabs : kFewestGrains))) {}

  Prediction predict() {
    choose_players();
    const std::uint64_t most = affordable();
    const SimulationResult at_least = busiest();
    if (work(most) > kFarTooMany * limits_.messages) return {at_least, players_, 0};
    Prediction prediction{run(most), players_, most};
    if (most == job_.count) return prediction;
    const std::uint64_t half = most / 2 / unit_ * unit_;
    const double slope = (prediction.played.us - run(half).us) / double(most - half);
    prediction.played.us = std::max(at_least.us, prediction.played.us + slope * double(job_.count - most));
    return prediction;
  }

 private:
  static constexpr std::uint64_t kFewestSlabs = 2, kFewestGrains = 16;  // for a pipe to fill
  static constexpr double kFarTooMany = 10;                             // times the limit

  std::optional<SimulatedRanks> cast_of(std::uint64_t count, Symmetry players) const {
    Job job = job_;
    job.count = count;
    return cast(job, players);
  }
  SimulationResult run(std::uint64_t count) const { return play(*cast_of(count, players_), cluster_, elem_bytes_); }

  bool try_players(Symmetry players) {
    std::optional<SimulatedRanks> some = cast_of(least_, players);
    if (!some) return false;
    players_ = players;
    small_ = *std::move(some);
    return true;
  }
  void choose_players() {
    if (job_.world > limits_.literal_world && try_players(Symmetry::rotating_host)) return;
    try_players(Symmetry::everybody);
    if (job_.world > limits_.literal_world && work(job_.count) > limits_.messages) try_players(Symmetry::mirrored_host);
  }

  // Messages of so many elements, by the plans of few.
  double work(std::uint64_t count) const {
    const double scale = double(count) / double(least_);
    const double grain = std::max(1.0, double(cluster_.grain_bytes) / double(elem_bytes_));
    return in_slabs_ ? scale * messages(small_, grain, 1) : messages(small_, grain, scale);
  }

  // The job's count, or the largest of its halves that is not too much work, or the least.
  std::uint64_t affordable() const {
    std::uint64_t count = job_.count;
    while (work(count) > limits_.messages && count / 2 >= least_) count = count / 2 / unit_ * unit_;
    return count;
  }

  // How long the host with the most to do works, if it never waits.
  SimulationResult busiest() const {
    struct Work {
      double core_us = 0, out = 0, in = 0;
    };
    const double scale = double(job_.count) / double(least_);
    std::vector<Work> hosts(std::size_t(small_.hosts), Work{});
    for (const SimulatedRank& actor : small_.actors) {
      Work& host = hosts[std::size_t(actor.host)];
      for (const Step& step : actor.plan.steps) {
        const double bytes = double(step.range.count * elem_bytes_) * scale;
        const int peer = actor.plan.streams[step.stream].peer;
        host.core_us += core_us(cluster_, step, bytes);
        if (peer < 0 || peer / job_.ranks_per_host == actor.host) continue;
        (step.act == Act::send ? host.out : host.in) += bytes;
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
  std::uint64_t unit_, least_;  // of what is left out; that a simulation needs
  Symmetry players_ = Symmetry::everybody;
  SimulatedRanks small_;  // for the least
};

}  // namespace

Prediction predict(const Job& job, const Cluster& cluster, std::uint64_t elem_bytes, const Limits& limits) {
  return Predictor(job, cluster, elem_bytes, limits).predict();
}

}  // namespace anello::bench
