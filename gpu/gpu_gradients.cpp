#include <algorithm>
#include <anello/error.hpp>
#include <anello/gpu_gradients.hpp>
#include <future>
#include <numeric>
#include <optional>
#include <utility>

#include "gpu/gpu_group.hpp"
#include "gpu/or_abort.hpp"
#include "gpu/serial_executor.hpp"
#include "ring/base/signature.hpp"
#include "ring/base/text.hpp"
#include "ring/gradients/buckets.hpp"
#include "ring/group/checks.hpp"

namespace anello {

using Clock = std::chrono::steady_clock;

class GpuGradients::Impl {
 public:
  Impl(GpuGroup& group, const gpu::Device& device, std::span<const Gradient> gradients, void* stream,
       const GradientOptions& options);

  void begin(double factor);
  void ready(std::size_t gradient);
  StepStats finish();
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  // A staged bucket blocks who sends it.
  struct Staging {
    explicit Staging(std::unique_ptr<gpu::Staged> its_path) : path(std::move(its_path)) {}

    std::unique_ptr<gpu::Staged> path;
    std::vector<gpu::Event> made;  // by bucket
    gpu::SerialExecutor<Clock::duration> executor;
    std::vector<std::future<Clock::duration>> under_way;
  };

  void compare(std::span<const Gradient> gradients, const GradientOptions& options);
  bool complete(const Bucket& bucket) const;
  void launch(std::size_t bucket);
  void launch_next() { launch(launched_++); }
  void entrust(std::size_t bucket, const std::vector<Tensor>& list, const ReduceOptions& options);
  void await_courier();
  void zero(std::size_t gradient);
  void follow(void* earlier, void* later);
  template <class Body>
  void on_device(Body body) {
    gpu::or_abort(same_, [&] {
      const gpu::DeviceGuard guard(device_);
      body();
    });
  }

  GpuGroup& group_;
  Group same_;  // for host memory
  gpu::Device device_;
  void* stream_;
  gpu::Stream travel_;
  gpu::Event order_;
  std::vector<std::string> names_;
  std::vector<Tensor> tensors_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> bucket_names_;
  std::vector<int> announced_;  // by gradient
  std::size_t launched_ = 0;    // buckets
  int passes_;
  Op op_;
  std::optional<DType> wire_;
  std::optional<double> factor_;  // of the step that has begun
  StepStats step_;
  std::optional<Staging> staging_;  // where NCCL does not carry the buckets; the last: it uses the others
};

namespace {

void refuse_what_is_not_there(const GradientOptions& options) {
  std::string what;
  if (options.combine == GradientOptions::Combine::weighted) what = "weights";
  if (options.tune_buckets) what = "tune_buckets";
  if (options.error_feedback) what = "error_feedback";
  if (options.max_norm) what = "max_norm";
  if (!what.empty()) throw Error(ErrorCode::unsupported, text("GpuGradients: there is no ", what, " for GPU memory"));
  if (options.accumulation_passes < 1)
    refuse("GpuGradients", text(options.accumulation_passes, " passes a step; give 1 or more"));
}

std::uint64_t bucket_bytes(const GradientOptions& options, std::span<const Tensor> tensors) {
  constexpr std::uint64_t kMin = 1 << 20, kMax = 32 << 20;
  if (options.bucket_bytes.value_or(0) > 0) return std::uint64_t(*options.bucket_bytes);
  std::uint64_t all = 0;
  for (const Tensor& tensor : tensors) all += tensor.bytes();
  return std::clamp(all / 8, kMin, kMax);
}

}  // namespace

GpuGradients::Impl::Impl(GpuGroup& group, const gpu::Device& device, std::span<const Gradient> gradients, void* stream,
                         const GradientOptions& options)
    : group_(group),
      same_(group.group()),
      device_(device),
      stream_(stream),
      travel_(gpu::make_stream(device)),
      order_(gpu::make_event(device)),
      announced_(gradients.size()),
      passes_(options.accumulation_passes),
      op_(options.combine == GradientOptions::Combine::sum ? Op::sum : Op::average),
      wire_(options.wire) {
  refuse_what_is_not_there(options);
  for (const Gradient& gradient : gradients) {
    if (!is_float(gradient.tensor.dtype))
      refuse("GpuGradients", text("gradient '", gradient.name, "' is ", name(gradient.tensor.dtype), ", not a float"));
    names_.emplace_back(gradient.name);
    tensors_.push_back(gradient.tensor);
  }
  compare(gradients, options);
  std::vector<std::uint32_t> order(gradients.size());
  std::iota(order.rbegin(), order.rend(), 0U);
  buckets_ = make_buckets(tensors_, order, bucket_bytes(options, tensors_));
  for (std::size_t bucket = 1; bucket <= buckets_.size(); bucket++)
    bucket_names_.push_back(text("bucket ", bucket, " of ", buckets_.size()));
  const bool by_nccl = std::ranges::all_of(tensors_, [&](const Tensor& tensor) {
    return group.impl_->nccl_can(Kind::allreduce, tensor.dtype, op_, {.wire = wire_});
  });
  if (by_nccl) return;
  staging_.emplace(group.impl_->another_staged());
  for (std::size_t bucket = 0; bucket < buckets_.size(); bucket++) staging_->made.push_back(gpu::make_event(device));
}

void GpuGradients::Impl::compare(std::span<const Gradient> gradients, const GradientOptions& options) {
  std::uint64_t all = fingerprint(std::uint64_t(options.accumulation_passes), std::uint64_t(op_));
  all = fingerprint(all, bucket_bytes(options, tensors_));
  for (const Gradient& gradient : gradients) {
    all = fingerprint(fingerprint(all, gradient.tensor.count), std::uint64_t(gradient.tensor.dtype));
    for (const char letter : gradient.name) all = fingerprint(all, std::uint64_t(letter));
    for (const std::uint64_t extent : gradient.shape) all = fingerprint(all, extent);
  }
  same_.barrier({.name = "the list of gradients", .consistency_token = all});
}

void GpuGradients::Impl::begin(double factor) {
  if (factor_) refuse("GpuGradients", "a step begins before the one before it was finished");
  factor_ = factor;
  launched_ = 0;
  step_ = {};
  std::ranges::fill(announced_, 0);
}

bool GpuGradients::Impl::complete(const Bucket& bucket) const {
  return std::ranges::all_of(bucket,
                             [&](const GradientPiece& piece) { return announced_[piece.parameter] == passes_; });
}

// All ranks send the buckets in the same order, whatever becomes ready first.
void GpuGradients::Impl::ready(std::size_t gradient) {
  if (gradient >= announced_.size())
    refuse("GpuGradients", text("there is no gradient ", gradient, ", only ", announced_.size()));
  if (!factor_) refuse("GpuGradients", text("'", names_[gradient], "' is ready, but no step has begun"));
  if (announced_[gradient] == passes_)
    refuse("GpuGradients", text("'", names_[gradient], "' has been announced as often as there are passes, ", passes_));
  announced_[gradient]++;
  while (launched_ < buckets_.size() && complete(buckets_[launched_])) launch_next();
}

void GpuGradients::Impl::launch(std::size_t bucket) {
  const auto began = Clock::now();
  std::vector<Tensor> list;
  for (const GradientPiece& piece : buckets_[bucket]) {
    const Tensor& tensor = tensors_[piece.parameter];
    auto* const data = static_cast<std::byte*>(tensor.data) + piece.first * size_bytes(tensor.dtype);
    list.emplace_back(data, piece.count, tensor.dtype);
  }
  const ReduceOptions options{.name = bucket_names_[bucket], .wire = wire_, .prescale = *factor_};
  if (staging_) return entrust(bucket, list, options);
  follow(stream_, travel_.get());
  group_.allreduce(list, travel_.get(), op_, options);
  step_.exposed += Clock::now() - began;
  step_.communicated = step_.exposed;
}

void GpuGradients::Impl::entrust(std::size_t bucket, const std::vector<Tensor>& list, const ReduceOptions& options) {
  on_device([&] { gpu::record(device_, staging_->made[bucket], stream_); });
  const auto carry = [this, bucket, list, options] {
    const auto began = Clock::now();
    on_device([&] { gpu::follow(device_, travel_.get(), staging_->made[bucket]); });
    staging_->path->allreduce(list, travel_.get(), op_, options);
    return Clock::now() - began;
  };
  staging_->under_way.push_back(staging_->executor.take(carry));
}

// All are through before the first failure is thrown: they use the caller's gradients.
void GpuGradients::Impl::await_courier() {
  const auto began = Clock::now();
  auto under_way = std::exchange(staging_->under_way, {});
  for (auto& bucket : under_way) bucket.wait();
  for (auto& bucket : under_way) step_.communicated += bucket.get();
  step_.exposed = Clock::now() - began;
}

void GpuGradients::Impl::zero(std::size_t gradient) {
  on_device([&] { gpu::zero(device_, tensors_[gradient].data, tensors_[gradient].bytes(), stream_); });
  announced_[gradient] = passes_;
}

void GpuGradients::Impl::follow(void* earlier, void* later) {
  on_device([&] { gpu::order(device_, order_, earlier, later); });
}

StepStats GpuGradients::Impl::finish() {
  if (!factor_) refuse("GpuGradients", "finish() without begin()");
  for (std::size_t gradient = 0; gradient < announced_.size(); gradient++)
    if (announced_[gradient] == 0) zero(gradient);
  while (launched_ < buckets_.size()) launch_next();
  factor_.reset();
  if (staging_) await_courier();
  follow(travel_.get(), stream_);
  return step_;
}

GpuGradients::GpuGradients(GpuGroup& group, std::span<const Gradient> gradients, void* stream,
                           const GradientOptions& options)
    : impl_(std::make_unique<Impl>(group, group.impl_->device(), gradients, stream, options)) {}
GpuGradients::GpuGradients(GpuGradients&&) noexcept = default;
GpuGradients& GpuGradients::operator=(GpuGradients&&) noexcept = default;
GpuGradients::~GpuGradients() = default;

void GpuGradients::begin(double factor) {
  impl_->begin(factor);
}
void GpuGradients::ready(std::size_t gradient) {
  impl_->ready(gradient);
}
StepStats GpuGradients::finish() {
  return impl_->finish();
}

std::vector<std::vector<std::size_t>> GpuGradients::buckets() const {
  std::vector<std::vector<std::size_t>> all;
  for (const Bucket& bucket : impl_->buckets()) {
    all.emplace_back();
    for (const GradientPiece& piece : bucket) all.back().push_back(piece.parameter);
  }
  return all;
}

}  // namespace anello
