#include "ring/gradients/bucket_schedule.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"
#include "ring/group/checks.hpp"

namespace anello::gradients {
namespace {

Tensor memory_of(const Tensor& gradient, const GradientPiece& piece) {
  auto* const data = static_cast<std::byte*>(gradient.data);
  return {data + piece.first * size_bytes(gradient.dtype), piece.count, gradient.dtype};
}

}  // namespace

BucketSchedule::BucketSchedule(std::string_view caller, std::span<const Gradient> gradients, int passes,
                               std::uint64_t max_bytes)
    : caller_(caller), passes_(passes), announced_(gradients.size()) {
  for (const Gradient& gradient : gradients) {
    names_.emplace_back(gradient.name);
    gradients_.push_back(gradient.tensor);
  }
  completed_.reserve(gradients.size());
  std::vector<std::uint32_t> backwards(gradients.size());
  std::iota(backwards.rbegin(), backwards.rend(), 0U);
  arrange(backwards, max_bytes);
}

void BucketSchedule::arrange(std::span<const std::uint32_t> order, std::uint64_t max_bytes) {
  ANELLO_CHECK(!begun_);
  buckets_.clear();
  buckets_of_.assign(gradients_.size(), {});
  for (Bucket& pieces : make_buckets(gradients_, order, max_bytes)) {
    ScheduledBucket& bucket = buckets_.emplace_back();
    for (const GradientPiece& piece : pieces) {
      bucket.tensors.push_back(memory_of(gradients_[piece.parameter], piece));
      buckets_of_[piece.parameter].push_back(buckets_.size() - 1);
    }
    bucket.pieces = std::move(pieces);
  }
  for (std::size_t k = 0; k < buckets_.size(); k++) buckets_[k].name = text("bucket ", k + 1, " of ", buckets_.size());
}

void BucketSchedule::begin() {
  if (begun_) group::refuse(caller_, "begin() was called during a step; call finish() first");
  begun_ = true;
  next_ = 0;
  completed_.clear();
  std::ranges::fill(announced_, 0);
  for (ScheduledBucket& bucket : buckets_) bucket.incomplete = bucket.pieces.size();
}

void BucketSchedule::announce(std::size_t gradient) {
  if (gradient >= gradients_.size())
    group::refuse(caller_, text("there is no gradient ", gradient, "; there are ", gradients_.size()));
  const std::string& name = names_[gradient];
  if (!begun_) group::refuse(caller_, text("'", name, "' was announced outside a step; call begin() first"));
  if (announced_[gradient] == passes_)
    group::refuse(caller_, text("'", name, "' was announced ", passes_ + 1, " times in a step of ", passes_,
                                passes_ == 1 ? " pass" : " passes"));
  if (++announced_[gradient] == passes_) complete(gradient);
}

void BucketSchedule::complete(std::size_t gradient) {
  completed_.push_back(std::uint32_t(gradient));
  for (const std::size_t bucket : buckets_of_[gradient]) buckets_[bucket].incomplete--;
}

std::vector<std::size_t> BucketSchedule::finish() {
  if (!begun_) group::refuse(caller_, "finish() was called outside a step; call begin() first");
  begun_ = false;
  std::vector<std::size_t> absent;
  for (std::size_t gradient = 0; gradient < gradients_.size(); gradient++) {
    if (announced_[gradient] == 0) absent.push_back(gradient);
    if (announced_[gradient] < passes_) complete(gradient);
  }
  return absent;
}

std::string BucketSchedule::omissions() const {
  constexpr std::size_t kMaxNames = 8;
  std::string list;
  std::size_t count = 0;
  for (std::size_t gradient = 0; gradient < gradients_.size(); gradient++)
    if (announced_[gradient] < passes_ && count++ < kMaxNames)
      list += text(list.empty() ? "" : ", ", "'", names_[gradient], "'");
  if (count == 0) return {};
  if (count > kMaxNames) list += text(" and ", count - kMaxNames, " more");
  return text(caller_, ": ready() was not called ", passes_ == 1 ? "" : text("in each of ", passes_, " passes "),
              "for ", list, "; call it before finish(), or set the option unannounced to zero");
}

std::vector<std::vector<std::size_t>> BucketSchedule::members() const {
  std::vector<std::vector<std::size_t>> all;
  for (const ScheduledBucket& bucket : buckets_) {
    auto& members = all.emplace_back();
    for (const GradientPiece& piece : bucket.pieces) members.push_back(piece.parameter);
  }
  return all;
}

std::uint64_t suitable_bucket_bytes(std::span<const Gradient> gradients, const BucketRange& range) {
  constexpr std::uint64_t kBuckets = 8;
  std::uint64_t all = 0;
  for (const Gradient& gradient : gradients) all += gradient.tensor.bytes();
  return std::clamp(all / kBuckets, range.min_bytes, range.max_bytes);
}

}  // namespace anello::gradients
