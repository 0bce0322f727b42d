#include <algorithm>
#include <anello/gradients.hpp>
#include <cmath>
#include <cstddef>
#include <exception>
#include <numeric>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/gradients/bucket_schedule.hpp"
#include "ring/gradients/bucket_tuner.hpp"
#include "ring/gradients/gradient_math.hpp"
#include "ring/gradients/registration.hpp"
#include "ring/group/group_impl.hpp"

namespace anello {
namespace {

using std::chrono::steady_clock;
using Combine = GradientOptions::Combine;

constexpr std::string_view kCaller = "gradients";

// Makes a group of all members with its own links, so that no other operations of `group` come between the buckets.
Group own_group(const Group& group) {
  std::vector<int> all(std::size_t(group.size()));
  std::iota(all.begin(), all.end(), 0);
  return group.group(all);
}

// Returns the total time that the group's finished operations took.
trace::Ticks time_in_operations(const Group& group) {
  trace::Ticks busy = 0;
  for (const trace::Totals::OfKind& kind : GroupAccess::recorder(group).tally.totals().kinds) busy += kind.busy;
  return busy;
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
  ~Impl();

  void begin(double factor);
  void ready(std::size_t gradient);
  StepStats finish();
  std::vector<std::span<float>> residuals() { return {lost_.begin(), lost_.end()}; }
  std::vector<std::vector<std::size_t>> buckets() const { return schedule_.members(); }

 private:
  bool alone() const { return group_.size() == 1; }
  void arrange(std::uint64_t max_bytes);
  void start_complete();
  void start(std::size_t bucket);
  double prescale();
  void wait_for(std::size_t bucket, StepStats& step);
  void check_omissions();
  void finish_alone();
  void note_piece(std::size_t gradient);
  void limit_norm(StepStats& step);
  void learn_order();
  void tune();

  const int exceptions_ = std::uncaught_exceptions();
  Group group_;
  GradientOptions options_;
  std::uint64_t max_bytes_;  // maximum size of a bucket
  gradients::BucketSchedule schedule_;
  std::vector<Work> works_;               // by bucket
  std::vector<std::vector<float>> lost_;  // by gradient, with error_feedback
  std::vector<std::uint32_t> order_;      // order in which gradients became ready in rank 0's first step
  bool learnt_ = false;
  std::optional<gradients::BucketTuner> tuner_;  // empty once it has tried all sizes

  // The state of the current step.
  steady_clock::time_point begun_at_;
  double factor_ = 1;
  double total_ = 0;  // sum of all ranks' factors, if they are weights
  Work totalling_;
  std::vector<std::size_t> missing_;   // by gradient: pieces whose operation is not done
  std::vector<double> squared_norms_;  // by gradient
  trace::TickClock clock_;
  trace::Ticks busy_before_ = 0;
};

Gradients::Impl::Impl(Group& group, std::span<const Gradient> gradients, const GradientOptions& options)
    : group_(own_group(group)),
      options_(options),
      max_bytes_(register_gradients(kCaller, group_, gradients, options, gradients::kHostBuckets)),
      schedule_(kCaller, gradients, options.accumulation_passes, max_bytes_),
      works_(schedule_.buckets().size()),
      missing_(gradients.size()),
      squared_norms_(gradients.size()) {
  busy_before_ = time_in_operations(group_);
  if (options_.error_feedback)
    for (const Gradient& gradient : gradients) lost_.emplace_back(gradient.tensor.count);
  if (options_.tune_buckets && !alone()) tuner_.emplace(bytes_of(schedule_.gradients()));
}

// If the destructor runs in the middle of a step, operations still use `total_` and the gradients. The caller may free
// the gradients next, so the destructor ends the operations.
Gradients::Impl::~Impl() {
  GroupAccess::end(group_, std::uncaught_exceptions() > exceptions_);
}

// Resets the measurement, because the messages with which the ranks agreed on the buckets do not belong to the next
// step.
void Gradients::Impl::arrange(std::uint64_t max_bytes) {
  schedule_.arrange(order_, max_bytes);
  works_ = std::vector<Work>(schedule_.buckets().size());
  busy_before_ = time_in_operations(group_);
}

void Gradients::Impl::begin(double factor) {
  schedule_.begin();
  if (tuner_) begun_at_ = steady_clock::now();
  factor_ = total_ = factor;
  for (std::size_t k = 0; k < missing_.size(); k++) missing_[k] = schedule_.pieces_of(k);
  if (options_.combine == Combine::weighted && !alone())
    totalling_ = group_.allreduce_async(std::span(&total_, 1), Op::sum, {.name = "gradients' weights"});
}

void Gradients::Impl::ready(std::size_t gradient) {
  schedule_.announce(gradient);
  start_complete();
}

void Gradients::Impl::start_complete() {
  if (!alone()) schedule_.send_complete([this](std::size_t bucket) { start(bucket); });
}

// begin() has started the sum of the weights, before any gradient was ready.
double Gradients::Impl::prescale() {
  if (options_.combine != Combine::weighted) return factor_;
  totalling_.wait();
  return total_ == 0 ? 0 : factor_ / total_;
}

void Gradients::Impl::start(std::size_t number) {
  const gradients::BucketSchedule::ScheduledBucket& bucket = schedule_.buckets()[number];
  bool averages = options_.combine == Combine::average;
  double factor = prescale();
  if (options_.error_feedback) {
    // Divides here, because values are rounded after scaling.
    if (std::exchange(averages, false)) factor /= group_.size();
    for (std::size_t k = 0; k < bucket.pieces.size(); k++) {
      const gradients::GradientPiece& piece = bucket.pieces[k];
      const std::span values(static_cast<float*>(bucket.tensors[k].data), piece.count);
      gradients::round_with_feedback(values, factor, *options_.wire,
                                     std::span(lost_[piece.parameter]).subspan(piece.first, piece.count));
    }
    factor = 1;
  }
  works_[number] = group_.allreduce_async(bucket.tensors, averages ? Op::average : Op::sum,
                                          {.name = bucket.name, .wire = options_.wire, .prescale = factor});
}

StepStats Gradients::Impl::finish() {
  const std::vector<std::size_t> absents = schedule_.finish();
  if (options_.unannounced == GradientOptions::Unannounced::error) check_omissions();
  for (const std::size_t absent : absents) {
    const Tensor& gradient = schedule_.gradients()[absent];
    std::fill_n(static_cast<std::byte*>(gradient.data), gradient.bytes(), std::byte());
  }
  start_complete();
  StepStats step;
  if (alone())
    finish_alone();
  else
    for (std::size_t bucket = 0; bucket < works_.size(); bucket++) wait_for(bucket, step);
  totalling_.wait();  // waits for the sum of the weights; without any bucket, nothing else waits for it
  const trace::Ticks busy = time_in_operations(group_);
  step.communicated = std::chrono::nanoseconds(clock_.scale().nanoseconds(busy - std::exchange(busy_before_, busy)));
  if (options_.max_norm) limit_norm(step);
  if (!learnt_)
    learn_order();
  else if (tuner_)
    tune();
  return step;
}

void Gradients::Impl::check_omissions() {
  const std::string omissions = schedule_.omissions();
  if (omissions.empty()) return;
  gradients::refuse_omissions(group_, omissions, [this] {
    try {
      wait_all(works_);
    } catch (const Error&) {  // an error of a world that has ended
    }
  });
}

// Computes the norms of the gradients that have arrived while the group's thread moves the other gradients.
void Gradients::Impl::wait_for(std::size_t bucket, StepStats& step) {
  const auto before = steady_clock::now();
  works_[bucket].wait();
  step.exposed += steady_clock::now() - before;
  for (const gradients::GradientPiece& piece : schedule_.buckets()[bucket].pieces) note_piece(piece.parameter);
}

void Gradients::Impl::finish_alone() {
  const double factor = options_.combine == Combine::weighted ? double(factor_ != 0) : factor_;
  const std::vector<Tensor>& gradients = schedule_.gradients();
  for (std::size_t k = 0; k < gradients.size(); k++) {
    if (factor != 1) gradients::multiply(gradients[k], factor);
    while (missing_[k] > 0) note_piece(k);
  }
}

// Adds up the norm gradient by gradient, so that the norm does not depend on the buckets.
void Gradients::Impl::note_piece(std::size_t gradient) {
  if (--missing_[gradient] == 0 && options_.max_norm)
    squared_norms_[gradient] = gradients::squared_norm(schedule_.gradients()[gradient]);
}

void Gradients::Impl::limit_norm(StepStats& step) {
  const double norm = std::sqrt(std::accumulate(squared_norms_.begin(), squared_norms_.end(), 0.0));
  step.norm = norm;
  if (!(norm > *options_.max_norm) || std::isinf(norm)) return;
  for (const Tensor& gradient : schedule_.gradients()) gradients::multiply(gradient, *options_.max_norm / norm);
}

// Uses rank 0's order on all ranks, so that all ranks have the same buckets.
void Gradients::Impl::learn_order() {
  learnt_ = true;
  if (alone()) return;
  order_ = schedule_.completed();
  group_.broadcast(order_, 0, {.name = "gradients' order"});
  arrange(tuner_ ? tuner_->candidate() : max_bytes_);
}

// Uses rank 0's times on all ranks, so that all ranks have the same buckets.
void Gradients::Impl::tune() {
  tuner_->note(steady_clock::now() - begun_at_);
  std::uint64_t bytes = tuner_->enough() ? tuner_->fastest() : tuner_->candidate();
  if (tuner_->enough()) {
    tuner_.reset();
    group_.broadcast(std::span(&bytes, 1), 0, {.name = "gradients' buckets"});
    if (group_.rank() == 0) log(Severity::info, text("gradients travel in buckets of at most ", bytes, " bytes"));
  }
  arrange(bytes);
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
std::vector<std::span<float>> Gradients::residuals() {
  return impl_->residuals();
}
std::vector<std::vector<std::size_t>> Gradients::buckets() const {
  return impl_->buckets();
}

}  // namespace anello
