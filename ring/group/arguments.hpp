// From the arguments of a verb to an operation: whatever can be wrong with them is refused here, by
// Error{invalid_argument}. The operation borrows what the arguments borrow. Pure.
#pragma once
#include <anello/group.hpp>
#include <vector>

#include "ring/group/checks.hpp"
#include "ring/group/operation.hpp"

namespace anello::operations {

Operation allreduce(ConstTensor input, Tensor output, Op op, const ReduceOptions& options);
// In place; the pieces of which the list consists are written to `pieces`, which the operation borrows.
Operation allreduce(std::span<const Tensor> tensors, std::vector<Buffer::Piece>& pieces, Op op,
                    const ReduceOptions& options);
Operation reduce(RankAndSize self, ConstTensor input, Tensor output, int root, Op op, const ReduceOptions& options);
Operation broadcast(RankAndSize self, std::span<const Tensor> tensors, std::vector<Buffer::Piece>& pieces, int root,
                    const Options& options);
Operation allgather(RankAndSize self, ConstTensor input, Tensor output, const PartOptions& options);
Operation gather(RankAndSize self, ConstTensor input, Tensor output, int root, const PartOptions& options);
Operation scatter(RankAndSize self, ConstTensor input, Tensor output, int root, const PartOptions& options);
Operation reduce_scatter(RankAndSize self, ConstTensor input, Tensor output, Op op, const ReduceOptions& options);
Operation alltoall(RankAndSize self, ConstTensor input, Tensor output, const Options& options);
Operation alltoall(RankAndSize self, ConstTensor input, Tensor output, std::span<const std::uint64_t> send_counts,
                   std::span<const std::uint64_t> recv_counts, const Options& options);
// What must go before the last one: everybody says how many elements it sends to whom. `arriving` is empty for work
// that is not waited for, which has room of its own.
Operation exchange_of_counts(const Operation& alltoall, std::span<std::uint64_t> arriving);
// Between the two members of a group of its own, of which rank 0 sends. The other side's tensor has no elements.
Operation transfer(ConstTensor input, Tensor output, const Options& options);
Operation barrier(const Options& options);

}  // namespace anello::operations
