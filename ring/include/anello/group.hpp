// A group: an ordered set of ranks, and the collective operations between them. The world is the group of all ranks.
//
// Order: every rank of a group must call the same operations in the same order with matching arguments. If a rank does
// not, the call throws Error{mismatch} on all ranks, and the error names the ranks that differ. In an operation in
// which data goes only one way, such as a broadcast, a rank may already have returned from the call. Then the next call
// of this rank throws; if no call follows, World::finish() throws.
//
// Blocking: a call blocks until this rank's part is done. Then the output is complete and the input may be changed.
// Calls that end in _async return at once, with a handle of the work.
// Threads: any thread may call. Calls on one group run one after another, in an order that must be the same on all its
// ranks. Groups do not wait for each other: two groups with ranks in common can be used by two threads at once.
// Errors: Error{invalid_argument} names the wrong argument and changes nothing. After Error{mismatch, rank_dead,
// rank_silent, rank_left, diverged, aborted, network, protocol, timed_out} the world has failed, with all its groups:
// every later call throws the same error, and the contents of outputs are undefined.
// Tensors: counts are numbers of elements and have 64 bits; zero elements are allowed. "In place" means that input and
// output are the same memory; otherwise they must not overlap. Results are bitwise equal on all ranks that get them.
// Views are passed by reference, because copies measurably slow down a call of a few bytes. Calls do not keep the
// views.
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

// Options of one call. All ranks must give the same options, except for the name.
struct Options {
  std::string_view name = {};  // appears in errors and diagnostics; may be empty
  // Any number that the program chooses, for example a step or a checksum. If it differs between ranks, the call throws
  // Error{mismatch}.
  std::uint64_t consistency_token = 0;
};

// Options of calls in which every rank has a part of one tensor.
struct PartOptions {
  std::string_view name = {};
  // The number of elements of each rank's part, in rank order, the same list on all ranks. Borrowed until the call
  // returns, also by _async calls. Empty: all parts have the same size.
  std::span<const std::uint64_t> counts = {};
  std::uint64_t consistency_token = 0;  // as in Options
};

// Options of calls that reduce.
struct ReduceOptions {
  std::string_view name = {};
  // allreduce only: the algorithm of this call, for example "ring" or "shares+ring". Empty: ANELLO_ALGORITHM decides.
  std::string_view algorithm = {};
  // The size of the parts (slabs) in which a large buffer is reduced, in bytes. 0: the whole buffer at once. Not given:
  // ANELLO_SLAB_BYTES decides.
  std::optional<std::int64_t> slab_bytes = {};
  // f16 or bf16: elements of f32 or f64 are sent rounded to this type, in a half or a quarter of the bytes. Each rank's
  // elements are rounded to this type, and every partial result that is sent is rounded too. Additions are done in f32
  // or f64. In f16, a sum beyond 65504 overflows, but an average overflows only if the mean is beyond 65504 (see Op).
  // An average is divided before it is rounded for sending, and multiplied by postscale after it was received. Not
  // given: elements are sent in their own type.
  std::optional<DType> wire = {};
  // Floating-point types only: inputs are multiplied by prescale, which may differ between ranks (a weight for each
  // rank). Results are multiplied by postscale; an average is divided first. Both factors are rounded to the element
  // type (to f32 for f16 and bf16) and must be finite in it. Each product is rounded too.
  double prescale = 1, postscale = 1;
  std::span<const std::uint64_t> counts = {};  // reduce_scatter only: as in PartOptions
  std::uint64_t consistency_token = 0;         // as in Options
};

class Group {
 public:
  // A Group is a handle: copies refer to the same group. The group ends when its last handle is gone and the operations
  // that were started are done, or when its world ends. If other ranks then still need this rank in the group, their
  // calls throw Error{rank_left}.
  Group(const Group&) = default;
  Group& operator=(const Group&) = default;
  Group(Group&&) noexcept = default;
  Group& operator=(Group&&) noexcept = default;

  // None of these functions blocks or throws.
  int rank() const;                             // this rank's number in this group, from 0 to size() - 1
  int size() const;                             // the number of ranks in this group
  std::span<const int> members() const;         // world ranks, in the order of the ranks of this group
  std::optional<int> rank_of(int world) const;  // a world rank's rank in this group, if it is a member

  // Returns the group of the given members. The members are ranks of this group, and their order becomes the order of
  // the new group. This rank must be one of them. Only members call this. Does not communicate or block. Each member
  // must make the same groups of the same members. If a group is made several times, every member must make it the same
  // number of times. Throws Error{invalid_argument} if a member is wrong or listed twice.
  [[nodiscard]] Group group(std::span<const int> members) const;
  [[nodiscard]] Group group(std::initializer_list<int> members) const;
  // Divides this group: ranks that give the same colour form a new group, ordered by key, then by rank. A collective:
  // all ranks call it; it blocks, and throws the errors of allgather.
  [[nodiscard]] Group split(int colour, int key = 0);

  // output[i] = the reduction of input[i] over all ranks. All ranks give the same count and dtype. With one tensor, the
  // call is in place. A list is reduced in place as one operation, without a copy; its tensors must have the same dtype
  // and must not share memory.
  void allreduce(const Tensor& inout, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(std::span<const Tensor> list, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(const ConstTensor& input, const Tensor& output, Op op = Op::sum, const ReduceOptions& options = {});
  void allreduce(std::initializer_list<Tensor> list, Op op = Op::sum, const ReduceOptions& options = {}) {
    allreduce(std::span(list.begin(), list.size()), op, options);
  }
  // Shorter forms of a sum with options.
  void allreduce(const Tensor& inout, const ReduceOptions& options) { allreduce(inout, Op::sum, options); }
  void allreduce(std::span<const Tensor> list, const ReduceOptions& options) { allreduce(list, Op::sum, options); }
  void allreduce(const ConstTensor& input, const Tensor& output, const ReduceOptions& options) {
    allreduce(input, output, Op::sum, options);
  }
  void allreduce(std::initializer_list<Tensor> list, const ReduceOptions& options) {
    allreduce(list, Op::sum, options);
  }

  // On the root: output[i] = the reduction of input[i] over all ranks. The output of other ranks is ignored. With one
  // tensor, the call is in place on the root, and the tensors of the other ranks do not change.
  void reduce(const Tensor& inout, int root, Op op = Op::sum, const ReduceOptions& options = {});
  void reduce(const ConstTensor& input, const Tensor& output, int root, Op op = Op::sum,
              const ReduceOptions& options = {});
  // Shorter forms of a sum with options.
  void reduce(const Tensor& inout, int root, const ReduceOptions& options) { reduce(inout, root, Op::sum, options); }
  void reduce(const ConstTensor& input, const Tensor& output, int root, const ReduceOptions& options) {
    reduce(input, output, root, Op::sum, options);
  }

  // Copies the root's elements to the same tensor of every other rank. A list is sent as one operation; its tensors
  // must have the same dtype.
  void broadcast(const Tensor& tensor, int root, const Options& options = {});
  void broadcast(std::span<const Tensor> tensors, int root, const Options& options = {});
  void broadcast(std::initializer_list<Tensor> tensors, int root, const Options& options = {}) {
    broadcast(std::span(tensors.begin(), tensors.size()), root, options);
  }

  // Part r of every rank's output = the input of rank r. The output has size() times as many elements as the input, or
  // the sum of the counts. In place: input is this rank's part of output.
  void allgather(const ConstTensor& input, const Tensor& output, const PartOptions& options = {});

  // Like allgather, but only the root gets an output. The output of other ranks is ignored.
  void gather(const ConstTensor& input, const Tensor& output, int root, const PartOptions& options = {});

  // output = this rank's part of the root's input, which has size() times as many elements as an output, or the sum of
  // the counts. The input of other ranks is ignored. In place: the root's output is its part of its input.
  void scatter(const ConstTensor& input, const Tensor& output, int root, const PartOptions& options = {});

  // output = the reduction over all ranks of this rank's part of their inputs. The input has size() times as many
  // elements as an output, or the sum of the counts. In place: output is this rank's part of input; the rest of input
  // is undefined afterwards.
  void reduce_scatter(const ConstTensor& input, const Tensor& output, Op op = Op::sum,
                      const ReduceOptions& options = {});
  void reduce_scatter(const ConstTensor& input, const Tensor& output, const ReduceOptions& options) {
    reduce_scatter(input, output, Op::sum, options);
  }

  // Part r of output = this rank's part of the input of rank r. Both tensors have size() parts of equal size. Not in
  // place.
  void alltoall(const ConstTensor& input, const Tensor& output, const Options& options = {});
  // Does the same with parts of different sizes: send_counts[r] elements go to rank r, and recv_counts[r] elements come
  // from rank r. The counts are exchanged first, in a separate operation. If two ranks disagree, Error{mismatch} names
  // them.
  void alltoall(const ConstTensor& input, const Tensor& output, std::span<const std::uint64_t> send_counts,
                std::span<const std::uint64_t> recv_counts, const Options& options = {});

  // Transfers between two ranks: the n-th recv from a rank gets the elements of that rank's n-th send to this rank.
  // Count and dtype must be the same. Each direction has its own connection, so other operations are not delayed. send
  // returns when the tensor may be changed; whether it waits for the recv depends on sizes and buffers.
  void send(const ConstTensor& tensor, int to, const Options& options = {});
  void recv(const Tensor& tensor, int from, const Options& options = {});
  // True if rank `from` has sent something to this rank that no recv has taken yet, so that recv(from) would begin to
  // receive at once. False while a recv from that rank is pending, because incoming data belongs to that recv. To
  // receive from any rank, probe one rank after another. Any thread. Does not block; only just after a failure it may
  // block until the ranks agree on the reason. Throws the errors of recv, also if nothing can arrive any more because
  // `from` has left. A probe is not an operation: it is not reported if nothing arrives, and does not detect a network
  // that is cut between these two ranks only. The source is MPI_Iprobe.
  [[nodiscard]] bool probe(int from);

  // Blocks until every rank has called it.
  void barrier(const Options& options = {});

  // The _async functions start an operation and return without waiting for it. Tensors are borrowed until the work is
  // done; all other arguments are copied. Operations run in the order in which they were started; blocking calls take
  // their place in that order. Errors in arguments are thrown at once, and all other errors by the work. Keep the
  // handle: only the handle shows when the tensors may be used again, and whether the operation has failed.
  [[nodiscard]] Work allreduce_async(const Tensor& inout, Op op = Op::sum, const ReduceOptions& options = {});
  [[nodiscard]] Work allreduce_async(std::span<const Tensor> list, Op op = Op::sum, const ReduceOptions& options = {});
  [[nodiscard]] Work allreduce_async(const ConstTensor& input, const Tensor& output, Op op = Op::sum,
                                     const ReduceOptions& options = {});
  [[nodiscard]] Work allreduce_async(std::initializer_list<Tensor> list, Op op = Op::sum,
                                     const ReduceOptions& options = {}) {
    return allreduce_async(std::span(list.begin(), list.size()), op, options);
  }
  [[nodiscard]] Work allreduce_async(const Tensor& inout, const ReduceOptions& options) {
    return allreduce_async(inout, Op::sum, options);
  }
  [[nodiscard]] Work allreduce_async(std::span<const Tensor> list, const ReduceOptions& options) {
    return allreduce_async(list, Op::sum, options);
  }
  [[nodiscard]] Work allreduce_async(const ConstTensor& input, const Tensor& output, const ReduceOptions& options) {
    return allreduce_async(input, output, Op::sum, options);
  }
  [[nodiscard]] Work allreduce_async(std::initializer_list<Tensor> list, const ReduceOptions& options) {
    return allreduce_async(list, Op::sum, options);
  }
  [[nodiscard]] Work reduce_async(const Tensor& inout, int root, Op op = Op::sum, const ReduceOptions& options = {});
  [[nodiscard]] Work reduce_async(const ConstTensor& input, const Tensor& output, int root, Op op = Op::sum,
                                  const ReduceOptions& options = {});
  [[nodiscard]] Work reduce_async(const Tensor& inout, int root, const ReduceOptions& options) {
    return reduce_async(inout, root, Op::sum, options);
  }
  [[nodiscard]] Work reduce_async(const ConstTensor& input, const Tensor& output, int root,
                                  const ReduceOptions& options) {
    return reduce_async(input, output, root, Op::sum, options);
  }
  [[nodiscard]] Work broadcast_async(const Tensor& tensor, int root, const Options& options = {});
  [[nodiscard]] Work broadcast_async(std::span<const Tensor> tensors, int root, const Options& options = {});
  [[nodiscard]] Work broadcast_async(std::initializer_list<Tensor> tensors, int root, const Options& options = {}) {
    return broadcast_async(std::span(tensors.begin(), tensors.size()), root, options);
  }
  [[nodiscard]] Work allgather_async(const ConstTensor& input, const Tensor& output, const PartOptions& options = {});
  [[nodiscard]] Work gather_async(const ConstTensor& input, const Tensor& output, int root,
                                  const PartOptions& options = {});
  [[nodiscard]] Work scatter_async(const ConstTensor& input, const Tensor& output, int root,
                                   const PartOptions& options = {});
  [[nodiscard]] Work reduce_scatter_async(const ConstTensor& input, const Tensor& output, Op op = Op::sum,
                                          const ReduceOptions& options = {});
  [[nodiscard]] Work reduce_scatter_async(const ConstTensor& input, const Tensor& output,
                                          const ReduceOptions& options) {
    return reduce_scatter_async(input, output, Op::sum, options);
  }
  [[nodiscard]] Work alltoall_async(const ConstTensor& input, const Tensor& output, const Options& options = {});
  [[nodiscard]] Work alltoall_async(const ConstTensor& input, const Tensor& output,
                                    std::span<const std::uint64_t> send_counts,
                                    std::span<const std::uint64_t> recv_counts, const Options& options = {});
  [[nodiscard]] Work send_async(const ConstTensor& tensor, int to, const Options& options = {});
  [[nodiscard]] Work recv_async(const Tensor& tensor, int from, const Options& options = {});
  [[nodiscard]] Work barrier_async(const Options& options = {});

  // Returns the mean of `value` over all ranks, the same on all of them. A collective: it blocks and throws like
  // allreduce.
  double average(double value);
  // Returns the sum, minimum or maximum of `value` over all ranks, in the same way.
  template <Element T>
  T sum(T value) {
    return reduced(value, Op::sum);
  }
  template <Element T>
  T min(T value) {
    return reduced(value, Op::min);
  }
  template <Element T>
  T max(T value) {
    return reduced(value, Op::max);
  }

  // Ends the world on every rank. May be called on any thread, also while calls are in progress: those calls throw
  // Error{aborted} with this rank and `reason`. Does not block.
  void abort(std::string_view reason);
  // Returns the error that ended the world; empty while the world is in order. Any thread. While the world is in order
  // it returns at once. Just after a failure it may block for up to four seconds, until the ranks agree on the reason.
  [[nodiscard]] std::optional<Error> failure() const;

 protected:
  class Impl;
  explicit Group(std::shared_ptr<Impl> impl);

 private:
  friend class World;
  friend class GroupAccess;  // for the engine's own rooms
  template <class T>
  T reduced(T value, Op op) {
    allreduce(Tensor(&value, 1), op, {.name = name(op)});
    return value;
  }
  std::shared_ptr<Impl> impl_;
};

}  // namespace anello
ANELLO_API_END
