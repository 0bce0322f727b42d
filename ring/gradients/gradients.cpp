#include <algorithm>
#include <anello/gradients.hpp>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/gradients/bucket_tuner.hpp"
#include "ring/gradients/buckets.hpp"
#include "ring/gradients/gradient_math.hpp"
#include "ring/gradients/registration.hpp"
#include "ring/group/checks.hpp"
#include "ring/group/group_impl.hpp"

namespace anello {
namespace {

using std::chrono::steady_clock;
using Combine = GradientOptions::Combine;

// All members, with links of their own: what else the group does does not come between.
Group own_group(const Group& group) {
  std::vector<int> all(std::size_t(group.size()));
  std::iota(all.begin(), all.end(), 0);
  return group.group(all);
}

// Several, so that the first can travel early and the last is small, but no more messages than that needs.
std::int64_t suitable_bucket_bytes(std::uint64_t all_bytes) {
  constexpr std::uint64_t kBuckets = 8, kMax = 4 << 20;
  return std::int64_t(std::clamp(all_bytes / kBuckets, kWorthwhileBucketBytes, kMax));
}

std::uint64_t bytes_of(std::span<const Tensor> gradients) {
  std::uint64_t all = 0;
  for (const Tensor& gradient : gradients) all += gradient.bytes();
  return all;
}

}  // namespace

class Gradients::Impl {
 public:
  Impl(Group& group, std::span<const Gradient> gradients, const GradientOptions& options);

  void begin(double factor);
  void ready(std::size_t gradient);
  StepStats finish();
  std::vector<std::vector<std::size_t>> buckets() const;

 private:
  struct Parameter {
    std::string name;
    int announced = 0;        // times in this step
    std::size_t missing = 0;  // of its pieces, those whose operation is not done
    double squared_norm = 0;
  };
  struct BucketState {
    Bucket bucket;
    std::string name;
    std::vector<Tensor> tensors;
    std::size_t missing = 0;  // gradients that are not ready
    Work work;
  };

  bool alone() const { return group_.size() == 1; }
  void load(std::span<const std::uint32_t> order);
  Tensor part(const GradientPiece& piece) const;
  void complete(std::size_t gradient);
  void start_full();
  void start(BucketState& load);
  double factor_on_the_way();
  void settle(BucketState& load, StepStats& step);
  void settle_alone();
  void note_piece(std::size_t gradient);
  void limit_norm(StepStats& step);
  void learn_order();
  void tune();

  Group group_;
  GradientOptions options_;
  std::vector<Tensor> tensors_;
  std::vector<Parameter> parameters_;
  std::vector<std::vector<float>> lost_;            // by parameter, with error_feedback
  std::vector<std::vector<std::size_t>> loads_of_;  // by parameter
  std::vector<BucketState> loads_;
  std::vector<std::uint32_t> order_;  // in which gradients become ready: this step's until one is learnt
  bool learnt_ = false;
  std::optional<BucketTuner> tuner_;  // until it has tried enough

  // Of the step.
  bool begun_ = false;
  steady_clock::time_point begun_at_;
  double factor_ = 1;
  double total_ = 0;  // of the factors
  Work totalling_;
  std::size_t next_ = 0;  // to start
  TickClock clock_;
  Ticks busy_before_ = 0;
};

Gradients::Impl::Impl(Group& group, std::span<const Gradient> gradients, const GradientOptions& options)
    : group_(own_group(group)), options_(options) {
  if (!options_.bucket_bytes) options_.bucket_bytes = group_.impl_->bucket_bytes;
  check_registration(group_, gradients, options_);
  busy_before_ = group_.impl_->busy();
  for (const Gradient& gradient : gradients) {
    tensors_.push_back(gradient.tensor);
    parameters_.push_back({std::string(gradient.name)});
    if (options_.error_feedback) lost_.emplace_back(gradient.tensor.count);
  }
  if (options_.bucket_bytes == 0) options_.bucket_bytes = suitable_bucket_bytes(bytes_of(tensors_));
  if (options_.tune_buckets && !alone()) tuner_.emplace(bytes_of(tensors_));
  // A backward pass comes to what was registered last first.
  std::vector<std::uint32_t> order(gradients.size());
  std::iota(order.rbegin(), order.rend(), 0U);
  load(order);
}

void Gradients::Impl::load(std::span<const std::uint32_t> order) {
  loads_.clear();
  loads_of_.assign(tensors_.size(), {});
  for (Bucket& bucket : make_buckets(tensors_, order, std::uint64_t(*options_.bucket_bytes))) {
    BucketState& fresh = loads_.emplace_back();
    for (const GradientPiece& piece : bucket) {
      fresh.tensors.push_back(part(piece));
      loads_of_[piece.parameter].push_back(loads_.size() - 1);
    }
    fresh.bucket = std::move(bucket);
  }
  for (std::size_t k = 0; k < loads_.size(); k++) loads_[k].name = text("bucket ", k + 1, " of ", loads_.size());
}

Tensor Gradients::Impl::part(const GradientPiece& piece) const {
  const Tensor& whole = tensors_[piece.parameter];
  return {static_cast<std::byte*>(whole.data) + piece.first * size_bytes(whole.dtype), piece.count, whole.dtype};
}

void Gradients::Impl::begin(double factor) {
  if (begun_) refuse("gradients", "a step begins before the one before it was finished: call finish()");
  begun_ = true;
  if (tuner_) begun_at_ = steady_clock::now();
  factor_ = total_ = factor;
  next_ = 0;
  for (BucketState& load : loads_) load.missing = load.bucket.size();
  for (std::size_t k = 0; k < parameters_.size(); k++) {
    parameters_[k].announced = 0;
    parameters_[k].missing = loads_of_[k].size();
  }
  if (options_.combine == Combine::weighted && !alone())
    totalling_ = group_.allreduce_async(std::span(&total_, 1), Op::sum, {.name = "gradients' weights"});
}

void Gradients::Impl::ready(std::size_t gradient) {
  if (gradient >= parameters_.size())
    refuse("gradients", text("there is no gradient ", gradient, "; there are ", parameters_.size()));
  Parameter& parameter = parameters_[gradient];
  if (!begun_)
    refuse("gradients", text("'", parameter.name,
                             "' was announced while no step had begun: after finish(), or before "
                             "begin()"));
  if (parameter.announced == options_.accumulation_passes)
    refuse("gradients",
           text("'", parameter.name, "' was announced ", options_.accumulation_passes + 1, " times in a step of ",
                options_.accumulation_passes, options_.accumulation_passes == 1 ? " pass" : " passes"));
  if (++parameter.announced == options_.accumulation_passes) complete(gradient);
}

void Gradients::Impl::complete(std::size_t gradient) {
  if (!learnt_) order_.push_back(std::uint32_t(gradient));
  for (const std::size_t load : loads_of_[gradient]) loads_[load].missing--;
  if (!alone()) start_full();
}

// In their order, which is the same on all ranks, whatever the order in which they become full.
void Gradients::Impl::start_full() {
  for (; next_ < loads_.size() && loads_[next_].missing == 0; next_++) start(loads_[next_]);
}

double Gradients::Impl::factor_on_the_way() {
  if (options_.combine != Combine::weighted) return factor_;
  totalling_.wait();  // it began before the first gradient was made
  return total_ == 0 ? 0 : factor_ / total_;
}

void Gradients::Impl::start(BucketState& load) {
  double factor = factor_on_the_way();
  if (options_.error_feedback) {
    for (std::size_t k = 0; k < load.bucket.size(); k++) {
      const GradientPiece& piece = load.bucket[k];
      const std::span values(static_cast<float*>(load.tensors[k].data), piece.count);
      round_with_feedback(values, factor, *options_.wire,
                          std::span(lost_[piece.parameter]).subspan(piece.first, piece.count));
    }
    factor = 1;
  }
  load.work = group_.allreduce_async(load.tensors, options_.combine == Combine::average ? Op::average : Op::sum,
                                     {.name = load.name, .wire = options_.wire, .prescale = factor});
}

StepStats Gradients::Impl::finish() {
  if (!begun_) refuse("gradients", "finish() without begin()");
  for (std::size_t k = 0; k < parameters_.size(); k++) {
    if (parameters_[k].announced == options_.accumulation_passes) continue;
    if (parameters_[k].announced == 0)
      std::fill_n(static_cast<std::byte*>(tensors_[k].data), tensors_[k].bytes(), std::byte());
    complete(k);
  }
  begun_ = false;
  StepStats step;
  if (alone())
    settle_alone();
  else
    for (BucketState& load : loads_) settle(load, step);
  const Ticks busy = group_.impl_->busy();
  step.communicated = std::chrono::nanoseconds(clock_.scale().nanoseconds(busy - std::exchange(busy_before_, busy)));
  if (options_.max_norm) limit_norm(step);
  if (!learnt_)
    learn_order();
  else if (tuner_)
    tune();
  return step;
}

// While the norms of what has come are computed, the group's thread moves what has not.
void Gradients::Impl::settle(BucketState& load, StepStats& step) {
  const auto before = steady_clock::now();
  load.work.wait();
  step.exposed += steady_clock::now() - before;
  for (const GradientPiece& piece : load.bucket) note_piece(piece.parameter);
}

void Gradients::Impl::settle_alone() {
  const double factor = options_.combine == Combine::weighted ? 1 : factor_;
  for (std::size_t k = 0; k < tensors_.size(); k++) {
    if (factor != 1) multiply(tensors_[k], factor);
    for (std::size_t pieces = loads_of_[k].size(); pieces > 0; pieces--) note_piece(k);
  }
}

// By parameter, so that the norm does not depend on the buckets.
void Gradients::Impl::note_piece(std::size_t gradient) {
  Parameter& its = parameters_[gradient];
  if (--its.missing == 0 && options_.max_norm) its.squared_norm = squared_norm(tensors_[gradient]);
}

void Gradients::Impl::limit_norm(StepStats& step) {
  double all = 0;
  for (const Parameter& parameter : parameters_) all += parameter.squared_norm;
  const double norm = std::sqrt(all);
  step.norm = norm;
  if (!(norm > *options_.max_norm) || std::isinf(norm)) return;
  for (const Tensor& tensor : tensors_) multiply(tensor, *options_.max_norm / norm);
}

// Rank 0's is everybody's, so that buckets are the same on all ranks.
void Gradients::Impl::learn_order() {
  learnt_ = true;
  if (alone()) return;
  group_.broadcast(order_, 0, {.name = "gradients' order"});
  if (tuner_) options_.bucket_bytes = std::int64_t(tuner_->candidate());
  load(order_);
  busy_before_ = group_.impl_->busy();
}

// Rank 0's times decide, so that buckets are the same on all ranks.
void Gradients::Impl::tune() {
  tuner_->note(steady_clock::now() - begun_at_);
  std::uint64_t bytes = tuner_->enough() ? tuner_->fastest() : tuner_->candidate();
  if (tuner_->enough()) {
    tuner_.reset();
    group_.broadcast(std::span(&bytes, 1), 0, {.name = "gradients' buckets"});
    if (group_.rank() == 0) log(Severity::info, text("gradients travel in buckets of at most ", bytes, " bytes"));
  }
  options_.bucket_bytes = std::int64_t(bytes);
  load(order_);
  busy_before_ = group_.impl_->busy();
}

std::vector<std::vector<std::size_t>> Gradients::Impl::buckets() const {
  std::vector<std::vector<std::size_t>> all;
  for (const BucketState& load : loads_) {
    auto& bucket = all.emplace_back();
    for (const GradientPiece& piece : load.bucket) bucket.push_back(piece.parameter);
  }
  return all;
}

Gradients::Gradients(Group& group, std::span<const Gradient> gradients, const GradientOptions& options)
    : impl_(std::make_unique<Impl>(group, gradients, options)) {}
Gradients::Gradients(Group& group, std::initializer_list<Gradient> gradients, const GradientOptions& options)
    : Gradients(group, std::span(gradients.begin(), gradients.size()), options) {}
Gradients::Gradients(Gradients&&) noexcept = default;
Gradients& Gradients::operator=(Gradients&&) noexcept = default;
Gradients::~Gradients() = default;

void Gradients::begin(double factor) {
  impl_->begin(factor);
}
void Gradients::ready(std::size_t gradient) {
  impl_->ready(gradient);
}
StepStats Gradients::finish() {
  return impl_->finish();
}
std::vector<std::vector<std::size_t>> Gradients::buckets() const {
  return impl_->buckets();
}

}  // namespace anello
