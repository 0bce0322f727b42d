// Decides which bucket of gradients is sent next. Counts how often each gradient was announced in a step, checks the
// order of the calls, and returns the buckets in the same order on all ranks, even if gradients become ready in
// different orders. Used for gradients in host memory and in GPU memory, so both have the same rules and messages. One
// thread, the one that uses the gradients. Pure: neither sends nor changes the gradients.
#pragma once
#include <anello/gradients.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ring/gradients/buckets.hpp"

namespace anello::gradients {

class BucketSchedule {
 public:
  struct ScheduledBucket {
    Bucket pieces;
    std::vector<Tensor> tensors;  // the memory of each piece
    std::string name;             // "bucket 2 of 5"
    std::size_t incomplete = 0;   // number of pieces whose gradient is not complete in this step
  };

  // `caller`: the beginning of each error message, for example "gradients". Borrows the gradients' memory. A gradient
  // is complete when it has been announced `passes` times. Buckets have at most `max_bytes`. They follow the list from
  // its end to its beginning, as a backward pass does.
  BucketSchedule(std::string_view caller, std::span<const Gradient> gradients, int passes, std::uint64_t max_bytes);

  // Makes new buckets, in which gradients follow `order` (each gradient's index once). Call only between steps.
  void arrange(std::span<const std::uint32_t> order, std::uint64_t max_bytes);

  // If these functions throw Error{invalid_argument}, they have changed nothing. begin() starts a step, in which no
  // gradient is announced yet. announce() counts that `gradient`, an index in the list, is ready. finish() ends the
  // step, completes all gradients, and returns those that were never announced.
  void begin();
  void announce(std::size_t gradient);
  std::vector<std::size_t> finish();
  // Call after finish(). Names the gradients that were not announced in each pass, and the remedy. Empty if all
  // gradients were announced.
  std::string omissions() const;

  // Calls send(number) once in a step for each bucket whose turn has come and whose gradients are all complete. If
  // send() throws, the next call sends the same bucket.
  template <class Send>
  void send_complete(Send send) {
    for (; next_ < buckets_.size() && buckets_[next_].incomplete == 0; next_++) send(next_);
  }

  const std::vector<ScheduledBucket>& buckets() const { return buckets_; }
  // Returns, for each bucket, the indices of its gradients.
  std::vector<std::vector<std::size_t>> members() const;
  const std::vector<Tensor>& gradients() const { return gradients_; }
  std::size_t pieces_of(std::size_t gradient) const { return buckets_of_[gradient].size(); }
  // Returns the order in which gradients became complete in this step; between steps, in the last step.
  const std::vector<std::uint32_t>& completed() const { return completed_; }

 private:
  void complete(std::size_t gradient);

  const std::string caller_;
  const int passes_;
  std::vector<std::string> names_;
  std::vector<Tensor> gradients_;
  std::vector<ScheduledBucket> buckets_;
  std::vector<std::vector<std::size_t>> buckets_of_;  // by gradient: the buckets in which it has a piece

  bool begun_ = false;
  std::vector<int> announced_;  // by gradient: how often it was announced in this step
  std::vector<std::uint32_t> completed_;
  std::size_t next_ = 0;
};

// The range of bucket sizes that is used if neither options nor settings give a size. A bucket in GPU memory is larger,
// because on a GPU an operation takes longer to start, and data moves faster.
struct BucketRange {
  std::uint64_t min_bytes, max_bytes;
};
inline constexpr BucketRange kHostBuckets{kWorthwhileBucketBytes, 4 << 20};
inline constexpr BucketRange kGpuBuckets{1 << 20, 32 << 20};

// Returns an eighth of all gradients' bytes, limited to the range. So there are several buckets: the first is sent
// early, and the last is small. More buckets would cause unnecessary messages.
std::uint64_t suitable_bucket_bytes(std::span<const Gradient> gradients, const BucketRange& range);

}  // namespace anello::gradients
