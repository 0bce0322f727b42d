// Functions of data-parallel training beside allreduce: shares of a list, steps of an epoch, learning rates. Pure, with
// the names and the rules of the Python package; any thread.
#pragma once
#include <anello/error.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace anello {

// How shard() treats items that cannot be divided evenly: it throws, leaves the last items out, or begins again from
// the first.
enum class Uneven { error, drop, repeat };

// Returns this rank's share of a list, for example of files: every size-th item, beginning with item `rank`. All ranks
// get the same number of items, because a rank with more steps would wait for the others for ever. If the items do not
// divide evenly and `uneven` is error, or if a rank would get no item, throws Error{invalid_argument}.
template <class Item>
[[nodiscard]] std::vector<Item> shard(const std::vector<Item>& items, int rank, int size,
                                      Uneven uneven = Uneven::error) {
  const auto refuse = [&](std::string why) { throw Error(ErrorCode::invalid_argument, std::move(why)); };
  const auto counted = std::to_string(items.size()) + " items";
  const auto ranks = std::to_string(size) + " ranks";
  if (rank < 0 || rank >= size) refuse("rank " + std::to_string(rank) + " is not one of " + ranks);
  const std::size_t count = std::size_t(size), left = items.size() % count;
  if (left != 0 && uneven == Uneven::error)
    refuse(counted + " cannot be divided evenly between " + ranks + ": " + std::to_string(left) +
           " are left over; give Uneven::drop or Uneven::repeat, or another number of items");
  const std::size_t each = items.size() / count + (left != 0 && uneven == Uneven::repeat ? 1 : 0);
  if (each == 0) refuse(counted + " are too few for " + ranks);
  std::vector<Item> share;
  share.reserve(each);
  for (std::size_t k = 0; k < each; k++) share.push_back(items[(std::size_t(rank) + k * count) % items.size()]);
  return share;
}

// Returns the number of steps in which `size` ranks together use each of `samples` samples once. In each step, each
// rank takes `batch` samples. Samples that do not fill a step are left out. Throws Error{invalid_argument} if there is
// not even one step.
[[nodiscard]] inline std::size_t steps_per_epoch(std::size_t samples, std::size_t batch, int size) {
  const std::size_t in_a_step = batch * std::size_t(size);
  if (size < 1 || in_a_step == 0 || samples < in_a_step)
    throw Error(ErrorCode::invalid_argument, std::to_string(samples) + " samples are fewer than one batch of " +
                                                 std::to_string(batch) + " on each of " + std::to_string(size) +
                                                 " ranks");
  return samples / in_a_step;
}

// Returns the learning rate for a larger batch. `rate` was tuned for `reference_batch`; the result is in proportion to
// the batch size (Goyal et al., 2017).
[[nodiscard]] inline double scaled_learning_rate(double rate, std::size_t global_batch, std::size_t reference_batch) {
  return rate * double(global_batch) / double(reference_batch);
}

// Returns the factor of the learning rate in a step. It rises linearly from `start` to 1 within `steps` steps, and
// stays 1.
[[nodiscard]] inline double warm_up(std::size_t step, std::size_t steps, double start = 0) {
  if (step >= steps) return 1;
  return start + (1 - start) * double(step + 1) / double(steps + 1);
}

}  // namespace anello
