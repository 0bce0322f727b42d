// Turns the arguments of a collective into an Operation. All checks of arguments are made here, and throw
// Error{invalid_argument}. The operation borrows what the arguments borrow. Pure.
#pragma once
#include <anello/group.hpp>
#include <vector>

#include "ring/group/checks.hpp"
#include "ring/group/operation.hpp"

namespace anello::group::operations {

Operation allreduce(const ConstTensor& input, const Tensor& output, Op op, const ReduceOptions& options);
// Reduces `tensors` in place. Writes the pieces of the list to `pieces`, which the operation borrows.
Operation allreduce(std::span<const Tensor> tensors, std::vector<run::Buffer::Piece>& pieces, Op op,
                    const ReduceOptions& options);
Operation reduce(RankAndSize self, const ConstTensor& input, Tensor output, int root, Op op,
                 const ReduceOptions& options);
Operation broadcast(RankAndSize self, std::span<const Tensor> tensors, std::vector<run::Buffer::Piece>& pieces,
                    int root, const Options& options);
Operation allgather(RankAndSize self, const ConstTensor& input, const Tensor& output, const PartOptions& options);
Operation gather(RankAndSize self, const ConstTensor& input, Tensor output, int root, const PartOptions& options);
Operation scatter(RankAndSize self, ConstTensor input, const Tensor& output, int root, const PartOptions& options);
Operation reduce_scatter(RankAndSize self, const ConstTensor& input, const Tensor& output, Op op,
                         const ReduceOptions& options);
Operation alltoall(RankAndSize self, const ConstTensor& input, const Tensor& output, const Options& options);
Operation alltoall(RankAndSize self, const ConstTensor& input, const Tensor& output,
                   std::span<const std::uint64_t> send_counts, std::span<const std::uint64_t> recv_counts,
                   const Options& options);
// The operation before an alltoall of unequal parts: each rank sends every other rank the number of elements that it
// will send. `arriving` receives these numbers; it is empty for asynchronous calls, which have their own memory for
// them.
Operation exchange_of_counts(const Operation& alltoall, std::span<std::uint64_t> arriving);
// Sends a tensor between the two members of a group that has only these two; rank 0 sends. The input of rank 1 and the
// output of rank 0 are empty.
Operation transfer(const ConstTensor& input, const Tensor& output, const Options& options);
Operation barrier(const Options& options);

}  // namespace anello::group::operations
