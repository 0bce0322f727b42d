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
        segment_elems_(std::max<std::uint64_t>(1, cluster.segment_bytes / elem_bytes)),
        in_slabs_(job.slab_elems > 0 && job.count > job.slab_elems),
        grain_(in_slabs_ ? job.slab_elems : segment_elems_) {}

  Prediction predict() {
    const std::uint64_t most = affordable();
    Prediction prediction{run(most), one_host_, most};
    if (most == job_.count) return prediction;
    const std::uint64_t half = most / 2 / grain_ * grain_;
    const double slope = (prediction.played.us - run(half).us) / double(most - half);
    prediction.played.us += slope * double(job_.count - most);
    return prediction;
  }

 private:
  static constexpr std::uint64_t kFewestGrains = 4;  // enough for a pipe to fill

  Cast cast(std::uint64_t count) {
    Job job = job_;
    job.count = count;
    job.ranks_per_host = std::min(job.ranks_per_host, job.world);
    if (job.world > limits_.literal_world) {
      if (std::optional<Cast> few = one_host(job)) {
        one_host_ = true;
        return *std::move(few);
      }
    }
    return everybody(job);
  }

  Played run(std::uint64_t count) { return play(cast(count), cluster_, elem_bytes_); }

  // The job's count, or the largest of its halves that is not too much work. How much work a size is, a small one's
  // plans tell.
  std::uint64_t affordable() {
    const std::uint64_t least = std::min(job_.count, kFewestGrains * grain_);
    if (least == job_.count) return job_.count;
    const Cast small = cast(least);
    const auto work = [&](std::uint64_t count) {
      const double scale = double(count) / double(least);
      return in_slabs_ ? scale * messages(small, double(segment_elems_), 1)
                       : messages(small, double(segment_elems_), scale);
    };
    std::uint64_t count = job_.count;
    while (work(count) > limits_.messages && count / 2 >= least) count = count / 2 / grain_ * grain_;
    return count;
  }

  const Job& job_;
  const Cluster& cluster_;
  std::uint64_t elem_bytes_;
  const Limits& limits_;
  std::uint64_t segment_elems_;
  bool in_slabs_;
  std::uint64_t grain_;
  bool one_host_ = false;
};

}  // namespace

Prediction predict(const Job& job, const Cluster& cluster, std::uint64_t elem_bytes, const Limits& limits) {
  return Predictor(job, cluster, elem_bytes, limits).predict();
}

}  // namespace anello::bench
