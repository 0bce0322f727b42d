// The collective calls of a group, blocking and asynchronous.
#include "ring/group/arguments.hpp"
#include "ring/group/group_impl.hpp"
#include "ring/group/scratch_list.hpp"

namespace anello {

namespace calls = group::calls;

namespace {

group::Call sending(const ConstTensor& tensor, const Options& options) {
  return calls::transfer(tensor, Tensor(nullptr, 0, tensor.dtype), options);
}
group::Call receiving(const Tensor& tensor, const Options& options) {
  return calls::transfer(ConstTensor(nullptr, 0, tensor.dtype), tensor, options);
}

// Runs `body`. If it refuses the call, stores the reason for the ranks that wait for this rank's operation.
template <class Body>
auto explaining_refusals(group::OperationQueue& queue, Body body) {
  try {
    return body();
  } catch (const std::exception& e) {
    queue.refused(e.what());
    throw;
  }
}

template <class Make>
void call(group::OperationQueue& queue, Make make) {
  explaining_refusals(queue, [&] { queue.run(make()); });
}

template <class Make>
std::shared_ptr<group::AsyncOperation> submit(group::OperationQueue& queue, Make make) {
  return explaining_refusals(queue, [&] { return queue.submit(make()); });
}

}  // namespace

namespace group {

void carry_out_with_counts(OperationQueue& queue, const Call& alltoall) {
  ScratchList<std::uint64_t> lent;
  std::vector<std::uint64_t>& arriving = lent;
  arriving.resize(alltoall.counts.size());
  queue.run(calls::exchange_of_counts(alltoall, arriving));
  queue.run(alltoall);
}

std::shared_ptr<AsyncOperation> start(OperationQueue& queue, const Call& call) {
  if (!exchanges_counts(call)) return queue.submit(call);
  return queue.submit(calls::exchange_of_counts(call, std::span<std::uint64_t>()), call);
}

}  // namespace group

void Group::allreduce(const Tensor& inout, Op op, const ReduceOptions& options) {
  allreduce(inout, inout, op, options);
}
void Group::allreduce(const ConstTensor& input, const Tensor& output, Op op, const ReduceOptions& options) {
  call(impl_->queue(), [&] { return calls::allreduce(input, output, op, options); });
}
void Group::allreduce(std::span<const Tensor> tensors, Op op, const ReduceOptions& options) {
  group::ScratchList<run::Buffer::Piece> pieces;
  call(impl_->queue(), [&] { return calls::allreduce(tensors, pieces, op, options); });
}

void Group::reduce(const Tensor& inout, int root, Op op, const ReduceOptions& options) {
  reduce(inout, inout, root, op, options);
}
void Group::reduce(const ConstTensor& input, const Tensor& output, int root, Op op, const ReduceOptions& options) {
  call(impl_->queue(), [&] { return calls::reduce(impl_->self, input, output, root, op, options); });
}

void Group::broadcast(const Tensor& tensor, int root, const Options& options) {
  broadcast({&tensor, 1}, root, options);
}
void Group::broadcast(std::span<const Tensor> tensors, int root, const Options& options) {
  group::ScratchList<run::Buffer::Piece> pieces;
  call(impl_->queue(), [&] { return calls::broadcast(impl_->self, tensors, pieces, root, options); });
}

void Group::allgather(const ConstTensor& input, const Tensor& output, const PartOptions& options) {
  call(impl_->queue(), [&] { return calls::allgather(impl_->self, input, output, options); });
}
void Group::gather(const ConstTensor& input, const Tensor& output, int root, const PartOptions& options) {
  call(impl_->queue(), [&] { return calls::gather(impl_->self, input, output, root, options); });
}
void Group::scatter(const ConstTensor& input, const Tensor& output, int root, const PartOptions& options) {
  call(impl_->queue(), [&] { return calls::scatter(impl_->self, input, output, root, options); });
}
void Group::reduce_scatter(const ConstTensor& input, const Tensor& output, Op op, const ReduceOptions& options) {
  call(impl_->queue(), [&] { return calls::reduce_scatter(impl_->self, input, output, op, options); });
}

void Group::alltoall(const ConstTensor& input, const Tensor& output, const Options& options) {
  call(impl_->queue(), [&] { return calls::alltoall(impl_->self, input, output, options); });
}
void Group::alltoall(const ConstTensor& input, const Tensor& output, std::span<const std::uint64_t> send_counts,
                     std::span<const std::uint64_t> recv_counts, const Options& options) {
  group::OperationQueue& queue = impl_->queue();
  explaining_refusals(queue, [&] {
    group::carry_out(queue, calls::alltoall(impl_->self, input, output, send_counts, recv_counts, options));
  });
}

void Group::send(const ConstTensor& tensor, int to, const Options& options) {
  call(impl_->sends(to), [&] { return sending(tensor, options); });
}
void Group::recv(const Tensor& tensor, int from, const Options& options) {
  call(impl_->receives(from), [&] { return receiving(tensor, options); });
}

bool Group::probe(int from) {
  return impl_->receives(from, "probe").has_arrived(0);
}

void Group::barrier(const Options& options) {
  call(impl_->queue(), [&] { return calls::barrier(options); });
}

Work Group::allreduce_async(const Tensor& inout, Op op, const ReduceOptions& options) {
  return allreduce_async(inout, inout, op, options);
}
Work Group::allreduce_async(const ConstTensor& input, const Tensor& output, Op op, const ReduceOptions& options) {
  return Work(submit(impl_->queue(), [&] { return calls::allreduce(input, output, op, options); }));
}
Work Group::allreduce_async(std::span<const Tensor> tensors, Op op, const ReduceOptions& options) {
  group::ScratchList<run::Buffer::Piece> pieces;
  return Work(submit(impl_->queue(), [&] { return calls::allreduce(tensors, pieces, op, options); }));
}

Work Group::reduce_async(const Tensor& inout, int root, Op op, const ReduceOptions& options) {
  return reduce_async(inout, inout, root, op, options);
}
Work Group::reduce_async(const ConstTensor& input, const Tensor& output, int root, Op op,
                         const ReduceOptions& options) {
  return Work(submit(impl_->queue(), [&] { return calls::reduce(impl_->self, input, output, root, op, options); }));
}

Work Group::broadcast_async(const Tensor& tensor, int root, const Options& options) {
  return broadcast_async({&tensor, 1}, root, options);
}
Work Group::broadcast_async(std::span<const Tensor> tensors, int root, const Options& options) {
  group::ScratchList<run::Buffer::Piece> pieces;
  return Work(submit(impl_->queue(), [&] { return calls::broadcast(impl_->self, tensors, pieces, root, options); }));
}

Work Group::allgather_async(const ConstTensor& input, const Tensor& output, const PartOptions& options) {
  return Work(submit(impl_->queue(), [&] { return calls::allgather(impl_->self, input, output, options); }));
}
Work Group::gather_async(const ConstTensor& input, const Tensor& output, int root, const PartOptions& options) {
  return Work(submit(impl_->queue(), [&] { return calls::gather(impl_->self, input, output, root, options); }));
}
Work Group::scatter_async(const ConstTensor& input, const Tensor& output, int root, const PartOptions& options) {
  return Work(submit(impl_->queue(), [&] { return calls::scatter(impl_->self, input, output, root, options); }));
}
Work Group::reduce_scatter_async(const ConstTensor& input, const Tensor& output, Op op, const ReduceOptions& options) {
  return Work(submit(impl_->queue(), [&] { return calls::reduce_scatter(impl_->self, input, output, op, options); }));
}

Work Group::alltoall_async(const ConstTensor& input, const Tensor& output, const Options& options) {
  return Work(submit(impl_->queue(), [&] { return calls::alltoall(impl_->self, input, output, options); }));
}
Work Group::alltoall_async(const ConstTensor& input, const Tensor& output, std::span<const std::uint64_t> send_counts,
                           std::span<const std::uint64_t> recv_counts, const Options& options) {
  group::OperationQueue& queue = impl_->queue();
  return Work(explaining_refusals(queue, [&] {
    return group::start(queue, calls::alltoall(impl_->self, input, output, send_counts, recv_counts, options));
  }));
}

Work Group::send_async(const ConstTensor& tensor, int to, const Options& options) {
  return Work(submit(impl_->sends(to), [&] { return sending(tensor, options); }));
}
Work Group::recv_async(const Tensor& tensor, int from, const Options& options) {
  return Work(submit(impl_->receives(from), [&] { return receiving(tensor, options); }));
}

Work Group::barrier_async(const Options& options) {
  return Work(submit(impl_->queue(), [&] { return calls::barrier(options); }));
}

double Group::average(double value) {
  allreduce(std::span(&value, 1), Op::average, {.name = "average"});
  return value;
}

}  // namespace anello
