// A group: an ordered set of ranks, and the collective operations between them. The world is the group of all ranks.
//
// Every rank of a group calls the same operations in the same order with matching arguments; a rank that does not is
// told so, on all ranks, by an Error{mismatch}. Calls block until the caller's part is done: outputs are complete,
// inputs may be reused; those that end in _async return at once, with a handle. Any thread may call; calls of several
// threads on one group are taken one after another, in an order that must be the same on all its ranks. Groups do not
// wait for each other: two that have ranks in common can be used by two threads at once, in any order. After any
// Error{mismatch, rank_dead, rank_silent, rank_left, diverged, aborted, network, protocol, timed_out} the world has
// failed, with all groups: every later call throws the same error. Error{invalid_argument} leaves it untouched.
//
// Counts are elements, 64 bits; zero is a count. In place means that input and output are the same memory; they must
// otherwise not overlap. Results are bitwise equal on all ranks.
#pragma once
#include <anello/export.h>
#include <anello/error.hpp>
#include <anello/tensor.hpp>
#include <anello/work.hpp>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

ANELLO_API_BEGIN
namespace anello {

// Per-call options, equal on all ranks but for the name, which appears in errors and diagnostics. `agree` is any number
// of the program's own (a step, a checksum): where it is not the same on all ranks, that is a mismatch.
struct Options {
  std::string_view name = {};
  std::uint64_t agree = 0;
};

// Of calls with a part for every rank. `counts` gives the elements of each rank's part, the same list on all ranks, and
// lives until the call is over; without it all parts are equal.
struct PartOptions {
  std::string_view name = {};
  std::span<const std::uint64_t> counts = {};
  std::uint64_t agree = 0;  // as in Options
};

// Of calls that reduce. `algorithm` (of allreduce only) and `slab_bytes` force for this call what ANELLO_ALGORITHM and
// ANELLO_SLAB_BYTES force for all. `wire` sends f32 or f64 as f16 or bf16, in half or a quarter of the bytes: each
// rank's elements are rounded to that, and so is every partial result on its way; what is added is f32 or f64. Beware
// of sums beyond f16's 65504. Of floats, what goes in is multiplied by `prescale` (which may differ from rank to rank,
// to weigh them), and what comes out by `postscale`. `counts` is of reduce_scatter only, as in PartOptions.
struct ReduceOptions {
  std::string_view name = {};
  std::string_view algorithm = {};  // "ring", ...; empty: as set
  int slab_bytes = -1;              // -1: as set
  std::optional<DType> wire = {};   // empty: elements travel as they are
  double prescale = 1, postscale = 1;
  std::span<const std::uint64_t> counts = {};
  std::uint64_t agree = 0;  // as in Options
};

class Group {
 public:
  // A handle: copies stand for the same group. It ends with the last of them, or with its world; whoever still needs
  // this rank then is told that it left.
  Group(const Group&) = default;
  Group& operator=(const Group&) = default;
  Group(Group&&) noexcept = default;
  Group& operator=(Group&&) noexcept = default;

  int rank() const;                             // in this group
  int size() const;                             // of this group
  std::span<const int> members() const;         // their ranks in the world, by rank in this group
  std::optional<int> rank_of(int world) const;  // in this group, of a rank in the world

  // The group of those members, given by their ranks in this group, in that order; this rank is one of them. The others
  // need not call. Nothing is sent: each member makes the same groups of the same members equally often.
  Group group(std::span<const int> members) const;
  Group group(std::initializer_list<int> members) const;
  // All ranks call: those with the same colour make a group, ordered by key, then by rank.
  Group split(int colour, int key = 0);

  // output[i] = reduction over ranks of input[i]. The first form is in place, and so is that of a list, which travels
  // as one operation, without a copy; its tensors share one dtype.
  void allreduce(Tensor inout, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(std::span<const Tensor> list, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(ConstTensor input, Tensor output, Op op = Op::sum, const ReduceOptions& options = {});

  // The root's output[i] = reduction over ranks of input[i]. The first form is in place, on the root; the other ranks'
  // tensors stay as they are, and their output is not looked at.
  void reduce(Tensor inout, int root, Op op = Op::sum, const ReduceOptions& options = {});
  void reduce(ConstTensor input, Tensor output, int root, Op op = Op::sum, const ReduceOptions& options = {});

  // Root's elements to everybody, in place; the list travels as one operation. The list's tensors share one dtype.
  void broadcast(Tensor tensor, int root, const Options& options = {});
  void broadcast(std::span<const Tensor> tensors, int root, const Options& options = {});

  // output's part r = rank r's input; output holds size() times as much, or the sum of the counts.
  // In place: input is output's own part.
  void allgather(ConstTensor input, Tensor output, const PartOptions& options = {});

  // The same, for the root's output alone; that of the others is not looked at.
  void gather(ConstTensor input, Tensor output, int root, const PartOptions& options = {});

  // output = this rank's part of the root's input, which holds size() times as much, or the sum of the counts; that of
  // the others is not looked at. In place: the root's output is its input's own part.
  void scatter(ConstTensor input, Tensor output, int root, const PartOptions& options = {});

  // output = reduction over ranks of this rank's part of input, which holds size() times as much, or the sum of the
  // counts. In place: output is input's own part, and the rest of input is left undefined.
  void reduce_scatter(ConstTensor input, Tensor output, Op op = Op::sum, const ReduceOptions& options = {});

  // output's part r = this rank's part of rank r's input. Both hold size() equal parts. Not in place.
  void alltoall(ConstTensor input, Tensor output, const Options& options = {});
  // The same with send_counts[r] elements for rank r and recv_counts[r] from it. The counts travel ahead, in an
  // operation of their own, so that ranks that do not agree are told which ones.
  void alltoall(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                std::span<const std::uint64_t> recv_counts, const Options& options = {});

  // From one rank to another: what the n-th send to a rank has is what the n-th recv from it on that rank gets; count
  // and dtype must be the same. They travel on a connection of their own for each direction, beside everything else.
  // send returns when the tensor may be used again; whether it waits for the peer's recv depends on sizes and buffers.
  void send(ConstTensor tensor, int to, const Options& options = {});
  void recv(Tensor tensor, int from, const Options& options = {});

  // Returns when every rank has called it.
  void barrier(const Options& options = {});

  // The same, started and not waited for: tensors are borrowed until the work is done, everything else is copied. They
  // are carried out in the order in which they were started, like calls that block, and mix with those.
  Work allreduce_async(Tensor inout, Op op = Op::sum, const ReduceOptions& options = {});
  Work allreduce_async(std::span<const Tensor> list, Op op = Op::sum, const ReduceOptions& options = {});
  Work allreduce_async(ConstTensor input, Tensor output, Op op = Op::sum, const ReduceOptions& options = {});
  Work reduce_async(Tensor inout, int root, Op op = Op::sum, const ReduceOptions& options = {});
  Work reduce_async(ConstTensor input, Tensor output, int root, Op op = Op::sum, const ReduceOptions& options = {});
  Work broadcast_async(Tensor tensor, int root, const Options& options = {});
  Work broadcast_async(std::span<const Tensor> tensors, int root, const Options& options = {});
  Work allgather_async(ConstTensor input, Tensor output, const PartOptions& options = {});
  Work gather_async(ConstTensor input, Tensor output, int root, const PartOptions& options = {});
  Work scatter_async(ConstTensor input, Tensor output, int root, const PartOptions& options = {});
  Work reduce_scatter_async(ConstTensor input, Tensor output, Op op = Op::sum, const ReduceOptions& options = {});
  Work alltoall_async(ConstTensor input, Tensor output, const Options& options = {});
  Work alltoall_async(ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                      std::span<const std::uint64_t> recv_counts, const Options& options = {});
  Work send_async(ConstTensor tensor, int to, const Options& options = {});
  Work recv_async(Tensor tensor, int from, const Options& options = {});
  Work barrier_async(const Options& options = {});

  // The mean of `value` over the ranks.
  double average(double value);

  // Ends the world on every rank, from any thread, also while calls are in progress: they throw Error{aborted} with
  // this rank and `reason`. Returns at once.
  void abort(std::string_view reason);
  // Why the world has failed, if it has. Any thread; waits two seconds at most while the ranks agree on the reason.
  std::optional<Error> failure() const;

 protected:
  class Impl;
  explicit Group(std::shared_ptr<Impl> impl);

 private:
  friend class World;
  friend class Gradients;
  std::shared_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
