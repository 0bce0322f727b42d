#include <algorithm>
#include <anello/error.hpp>
#include <anello/gpu_gradients.hpp>
#include <future>
#include <optional>
#include <utility>

#include "gpu/gpu_group.hpp"
#include "gpu/or_abort.hpp"
#include "gpu/serial_executor.hpp"
#include "ring/base/text.hpp"
#include "ring/gradients/bucket_schedule.hpp"
#include "ring/gradients/registration.hpp"
#include "ring/group/arguments.hpp"

namespace anello {

using Clock = std::chrono::steady_clock;

class GpuGradients::Impl {
 public:
  Impl(GpuGroupAccess::Impl& gpus, std::span<const Gradient> gradients, GpuStream stream,
       const GradientOptions& options);
  ~Impl();

  void begin(double factor);
  void ready(std::size_t gradient);
  StepStats finish();
  std::vector<std::vector<std::size_t>> buckets() const { return schedule_.members(); }

 private:
  // The state for buckets that go through host memory. The call that carries a bucket blocks, so a separate thread
  // makes the call.
  struct Staging {
    Staging(std::unique_ptr<gpu::Staged> its_path, const AnelloGpuTable& table) : path(std::move(its_path)) {
      (void)executor.submit([&table] { return table.ignore_captures(), Clock::duration(); });
    }
    ~Staging() { path->give_up(); }  // without this, the executor would wait for a call that waits for other ranks

    std::unique_ptr<gpu::Staged> path;
    std::vector<gpu::Event> made;  // by bucket: done when the bucket's gradients are complete
    gpu::SerialExecutor<Clock::duration> executor;
    std::vector<std::future<Clock::duration>> under_way;
  };

  void send_complete();
  void send(const gradients::BucketSchedule::ScheduledBucket& bucket, const ReduceOptions& options);
  void send_staged(std::size_t number, const ReduceOptions& options);
  void wait_for_staged();
  void check_omissions();
  void follow(GpuStream earlier, GpuStream later);
  template <class Body>
  void on_device(Body body) {
    gpu::or_abort(same_ranks_, [&] {
      const gpu::DeviceGuard guard(device_);
      body();
    });
  }

  GpuGroupAccess::Impl& gpus_;  // refers to the Impl and not to the GpuGroup, because that object may be moved
  Group same_ranks_;            // used for buckets that go through host memory
  gpu::Device device_;
  gradients::BucketSchedule schedule_;
  GpuStream stream_;    // the backward pass runs here
  gpu::Stream travel_;  // carries the buckets; urgent, so that casts and NCCL do not wait for the backward pass
  gpu::Event order_;
  Op op_;
  std::optional<DType> wire_;
  bool zero_unannounced_;
  double factor_ = 1;  // factor of the current step
  bool in_step_ = false;
  StepStats step_;
  // Set if NCCL does not carry the buckets; the last member, because its thread uses the other members.
  std::optional<Staging> staging_;
};

namespace {

constexpr std::string_view kCaller = "GpuGradients";

void refuse_what_is_not_there(const GradientOptions& options) {
  std::string_view what;
  if (options.combine == GradientOptions::Combine::weighted) what = "weighted";
  if (options.tune_buckets) what = "tune_buckets";
  if (options.error_feedback) what = "error_feedback";
  if (options.max_norm) what = "max_norm";
  if (!what.empty())
    throw Error(ErrorCode::unsupported, text(kCaller, ": ", what, " is not available for gradients in GPU memory"));
}

gradients::BucketSchedule make_schedule(Group& group, std::span<const Gradient> gradients,
                                        const GradientOptions& options) {
  refuse_what_is_not_there(options);
  return {kCaller, gradients, options.accumulation_passes,
          register_gradients(kCaller, group, gradients, options, gradients::kGpuBuckets)};
}

}  // namespace

GpuGradients::Impl::Impl(GpuGroupAccess::Impl& gpus, std::span<const Gradient> gradients, GpuStream stream,
                         const GradientOptions& options)
    : gpus_(gpus),
      same_ranks_(gpus.group()),
      device_(gpus.device()),
      schedule_(make_schedule(same_ranks_, gradients, options)),
      stream_(stream),
      travel_(gpu::make_stream(device_, gpu::Priority::urgent)),
      order_(gpu::make_event(device_)),
      op_(options.combine == GradientOptions::Combine::sum ? Op::sum : Op::average),
      wire_(options.wire),
      zero_unannounced_(options.unannounced == GradientOptions::Unannounced::zero) {
  GpuGroupAccess::Impl::check_stream(kCaller, stream);
  const bool direct = std::ranges::all_of(schedule_.gradients(), [&](const Tensor& gradient) {
    return gpus.can_directly({.kind = Kind::allreduce, .op = op_, .dtype = gradient.dtype, .wire = wire_});
  });
  if (direct) return;
  staging_.emplace(gpus.another_staged(), *device_.table);
  while (staging_->made.size() < schedule_.buckets().size()) staging_->made.push_back(gpu::make_event(device_));
}

// In the middle of a step, buckets are still being sent. The caller may queue work next that frees the gradients, so
// work on the caller's stream must wait for the buckets.
GpuGradients::Impl::~Impl() {
  if (!in_step_) return;
  try {
    follow(travel_.get(), stream_);
  } catch (const Error&) {  // the device has failed, and the world has already been aborted
  }
}

void GpuGradients::Impl::begin(double factor) {
  schedule_.begin();
  in_step_ = true;
  factor_ = factor;
  step_ = {};
}

void GpuGradients::Impl::ready(std::size_t gradient) {
  schedule_.announce(gradient);
  send_complete();
}

void GpuGradients::Impl::send_complete() {
  schedule_.send_complete([this](std::size_t number) {
    const gradients::BucketSchedule::ScheduledBucket& bucket = schedule_.buckets()[number];
    const ReduceOptions options{.name = bucket.name, .wire = wire_, .prescale = factor_};
    if (staging_)
      send_staged(number, options);
    else
      send(bucket, options);
  });
}

void GpuGradients::Impl::send(const gradients::BucketSchedule::ScheduledBucket& bucket, const ReduceOptions& options) {
  const auto began = Clock::now();
  follow(stream_, travel_.get());
  std::vector<run::Buffer::Piece> pieces;
  gpus_.carry_out(group::calls::allreduce(bucket.tensors, pieces, op_, options), travel_.get());
  step_.exposed += Clock::now() - began;
  step_.communicated = step_.exposed;
}

void GpuGradients::Impl::send_staged(std::size_t number, const ReduceOptions& options) {
  gpu::refuse_capture(device_, stream_, "GpuGradients that go through host memory");
  on_device([&] { gpu::record(device_, staging_->made[number], stream_); });
  const auto carry = [this, number, options] {
    const auto began = Clock::now();
    on_device([&] { gpu::follow(device_, travel_.get(), staging_->made[number]); });
    std::vector<run::Buffer::Piece> pieces;
    const auto& tensors = schedule_.buckets()[number].tensors;
    staging_->path->carry_out(group::calls::allreduce(tensors, pieces, op_, options), travel_.get());
    return Clock::now() - began;
  };
  staging_->under_way.push_back(staging_->executor.submit(carry));
}

// Waits for all buckets before throwing the first failure, because buckets use the caller's gradients.
void GpuGradients::Impl::wait_for_staged() {
  const auto began = Clock::now();
  auto under_way = std::exchange(staging_->under_way, {});
  for (auto& bucket : under_way) bucket.wait();
  for (auto& bucket : under_way) step_.communicated += bucket.get();
  step_.exposed = Clock::now() - began;
}

void GpuGradients::Impl::follow(GpuStream earlier, GpuStream later) {
  on_device([&] { gpu::order(device_, order_, earlier, later); });
}

void GpuGradients::Impl::check_omissions() {
  const std::string omissions = schedule_.omissions();
  if (omissions.empty()) return;
  gradients::refuse_omissions(same_ranks_, omissions, [this] {
    if (!staging_) return;
    for (auto& bucket : std::exchange(staging_->under_way, {})) bucket.wait();
  });
}

StepStats GpuGradients::Impl::finish() {
  const std::vector<std::size_t> absents = schedule_.finish();
  if (!zero_unannounced_) check_omissions();
  for (const std::size_t absent : absents) {
    const Tensor& gradient = schedule_.gradients()[absent];
    on_device([&] { gpu::zero(device_, gradient.data, gradient.bytes(), stream_); });
  }
  send_complete();
  if (staging_) wait_for_staged();
  follow(travel_.get(), stream_);
  in_step_ = false;
  return step_;
}

GpuGradients::GpuGradients(GpuGroup& group, std::span<const Gradient> gradients, GpuStream stream,
                           const GradientOptions& options)
    : impl_(std::make_unique<Impl>(GpuGroupAccess::impl(group), gradients, stream, options)) {}
GpuGradients::GpuGradients(GpuGroup& group, std::initializer_list<Gradient> gradients, GpuStream stream,
                           const GradientOptions& options)
    : GpuGradients(group, std::span(gradients.begin(), gradients.size()), stream, options) {}
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
  return impl_->buckets();
}

}  // namespace anello
