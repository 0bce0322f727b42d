// Turns the arguments of a collective into a Call. All checks of arguments are made here, and throw
// Error{invalid_argument}. The call borrows all memory that the arguments borrow. Pure.
#pragma once
#include <anello/group.hpp>
#include <vector>

#include "ring/group/call.hpp"
#include "ring/group/checks.hpp"

namespace anello::group::calls {

Call allreduce(const ConstTensor& input, const Tensor& output, Op op, const ReduceOptions& options);
// Makes the call that reduces `tensors` in place. Writes the pieces of the list to `pieces`, which the call borrows.
Call allreduce(std::span<const Tensor> tensors, std::vector<run::Buffer::Piece>& pieces, Op op,
               const ReduceOptions& options);
Call reduce(RankAndSize self, const ConstTensor& input, Tensor output, int root, Op op, const ReduceOptions& options);
Call broadcast(RankAndSize self, std::span<const Tensor> tensors, std::vector<run::Buffer::Piece>& pieces, int root,
               const Options& options);
Call allgather(RankAndSize self, const ConstTensor& input, const Tensor& output, const PartOptions& options);
Call gather(RankAndSize self, const ConstTensor& input, Tensor output, int root, const PartOptions& options);
Call scatter(RankAndSize self, ConstTensor input, const Tensor& output, int root, const PartOptions& options);
Call reduce_scatter(RankAndSize self, const ConstTensor& input, const Tensor& output, Op op,
                    const ReduceOptions& options);
Call alltoall(RankAndSize self, const ConstTensor& input, const Tensor& output, const Options& options);
Call alltoall(RankAndSize self, const ConstTensor& input, const Tensor& output,
              std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> recv_counts,
              const Options& options);
// Makes the call that precedes an alltoall of unequal parts. In this call, each rank sends to every other rank the
// number of elements that it will send to that rank. `arriving` receives these numbers. Pass an empty span for an
// asynchronous call, whose operation has its own memory for the numbers.
Call exchange_of_counts(const Call& alltoall, std::span<std::uint64_t> arriving);
// Makes the call that sends a tensor from rank 0 to rank 1 in a group of only two members. The input of rank 1 and the
// output of rank 0 are empty.
Call transfer(const ConstTensor& input, const Tensor& output, const Options& options);
Call barrier(const Options& options);

}  // namespace anello::group::calls
