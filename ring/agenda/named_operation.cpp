#include "ring/agenda/named_operation.hpp"

#include <algorithm>
#include <anello/memory.hpp>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "ring/agenda/elements.hpp"
#include "ring/base/text.hpp"
#include "ring/group/arguments.hpp"

namespace anello::agenda {
namespace {

namespace operations = group::operations;

constexpr std::size_t kSharedFromBytes = 64 << 10;  // below that, other ranks copy it anyway
constexpr std::align_val_t kAlignment{64};

std::uint64_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t(0));
}

Sizes times(Sizes sizes, std::uint64_t factor) {
  for (std::uint64_t& size : sizes) size *= factor;
  return sizes;
}

// The rows that each rank contributes to this rank's output number k.
Sizes rows_of(const Agreed& agreed, std::size_t k) {
  Sizes rows;
  for (const Sizes& sizes : agreed.sizes) rows.push_back(sizes.at(k));
  return rows;
}

}  // namespace

OutputMemory::OutputMemory(std::size_t bytes)
    : bytes_(bytes), data_(bytes >= kSharedFromBytes ? allocate(bytes) : ::operator new(bytes, kAlignment)) {}

OutputMemory::~OutputMemory() {
  if (bytes_ >= kSharedFromBytes)
    deallocate(data_);
  else
    ::operator delete(data_, kAlignment);
}

NamedOperation::NamedOperation(Request request, std::string key) : request_(std::move(request)), key_(std::move(key)) {
  request_.name = {};
}

NamedOperation::NamedOperation(Request request, std::string key, std::shared_ptr<DeviceOperation> on_device)
    : NamedOperation(std::move(request), std::move(key)) {
  on_device_ = std::move(on_device);
}

// A factor of this rank's own must not touch its elements, which would not be neutral any more.
NamedOperation::NamedOperation(const Description& description, std::string key)
    : request_{.verb = description.verb, .op = description.op, .postscale = description.postscale},
      key_(std::move(key)) {
  if (description.wire != DType{}) request_.wire = description.wire;
  for (const Array& array : description.arrays) {
    if (description.on_gpu) {
      request_.inputs.push_back({nullptr, array.shape, array.dtype});
      continue;
    }
    const ArrayView mine{make_output(array.shape, array.dtype), array.shape, array.dtype};
    fill_neutral(mine.tensor(), description.op);
    request_.inputs.push_back(mine);
  }
  outputs_.clear();
}

void* NamedOperation::make_output(std::vector<std::uint64_t> shape, DType dtype) {
  const std::uint64_t elems = count(shape);
  if (elems > PTRDIFF_MAX / size_bytes(dtype)) throw std::bad_alloc();
  memory_.push_back(std::make_unique<OutputMemory>(elems * size_bytes(dtype)));
  outputs_.push_back({memory_.back()->data(), std::move(shape), dtype});
  return memory_.back()->data();
}

void NamedOperation::prepare(const Agreed& agreed, group::RankAndSize self, DeviceCarrier* carrier) {
  if (agreed.description.on_gpu && !on_device_) {
    if (!carrier)
      throw Error(
          ErrorCode::unsupported,
          "this rank has joined, and its agenda was given no GPUs: all ranks call anello_agenda_use_gpus, or none");
    on_device_ = carrier->make_neutral(request_);
  }
  for (std::size_t k = 0; k < request_.inputs.size(); k++) {
    std::vector<std::uint64_t> shape = request_.inputs[k].shape;
    if (verb() == Verb::allgather || verb() == Verb::alltoall) {
      rows_.push_back(rows_of(agreed, verb() == Verb::allgather ? k : std::size_t(self.rank)));
      shape[0] = sum(rows_.back());
    } else if (verb() == Verb::reduce_scatter) {
      shape[0] = shares(shape[0], self.size)[std::size_t(self.rank)];
    } else {
      continue;
    }
    make_output(std::move(shape), request_.inputs[k].dtype);
  }
}

void NamedOperation::start(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self) {
  if (on_device_) return on_device_->start(key_);
  switch (verb()) {
    case Verb::allreduce:
      return start_allreduce(queue);
    case Verb::broadcast:
      return start_broadcast(queue, self);
    case Verb::allgather:
      return start_allgather(queue, self);
    case Verb::alltoall:
      return start_alltoall(agreed, queue, self);
    case Verb::reduce_scatter:
      return start_reduce_scatter(queue, self);
    case Verb::barrier:  // all ranks have submitted it
    case Verb::join:
      return;
  }
}

void NamedOperation::add(group::OperationQueue& queue, const group::Operation& operation) {
  works_.push_back(queue.submit_quietly(operation));
  queue.when_done(*works_.back(), [alive = shared_from_this()](const Error*) {});
}

ReduceOptions NamedOperation::options(DType dtype) const {
  const bool scales = is_float(dtype);
  return {.name = key_,
          .wire = request_.wire,
          .prescale = scales ? request_.prescale : 1,
          .postscale = scales ? request_.postscale : 1};
}

void NamedOperation::start_allreduce(group::OperationQueue& queue) {
  const bool in_place = request_.outputs.empty();
  const std::vector<ArrayView>& outputs = in_place ? request_.inputs : request_.outputs;
  for (const auto& list : by_dtype(request_.inputs)) {
    const DType dtype = request_.inputs[list[0]].dtype;
    const bool scales = request_.prescale != 1 && is_integer(dtype);
    for (const std::size_t k : list) {
      const Tensor input = request_.inputs[k].tensor(), output = outputs[k].tensor();
      if (scales)
        scale_integers(input, output, request_.prescale);
      else if (list.size() > 1 && input.data != output.data && input.count > 0)
        std::memcpy(output.data, input.data, input.bytes());
    }
    // A list of one tensor is described differently, so all ranks take the same of the two forms.
    std::vector<run::Buffer::Piece> pieces;
    const Tensor output = outputs[list[0]].tensor(), input = scales ? output : request_.inputs[list[0]].tensor();
    add(queue, list.size() == 1
                   ? operations::allreduce(input, output, request_.op, options(dtype))
                   : operations::allreduce(tensors_of(outputs, list), pieces, request_.op, options(dtype)));
  }
}

void NamedOperation::start_broadcast(group::OperationQueue& queue, group::RankAndSize self) {
  for (const auto& list : by_dtype(request_.inputs)) {
    std::vector<run::Buffer::Piece> pieces;
    add(queue, operations::broadcast(self, tensors_of(request_.inputs, list), pieces, request_.root, {.name = key_}));
  }
}

void NamedOperation::start_allgather(group::OperationQueue& queue, group::RankAndSize self) {
  for (std::size_t k = 0; k < outputs_.size(); k++) {
    const Sizes counts = times(rows_[k], row_count(outputs_[k].shape));
    add(queue, operations::allgather(self, request_.inputs[k].tensor(), outputs_[k].tensor(),
                                     {.name = key_, .counts = counts}));
  }
}

void NamedOperation::start_alltoall(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self) {
  const std::uint64_t elems = row_count(outputs_[0].shape);
  const Sizes send = times(agreed.sizes[std::size_t(self.rank)], elems), receive = times(rows_[0], elems);
  add(queue,
      operations::alltoall(self, request_.inputs[0].tensor(), outputs_[0].tensor(), send, receive, {.name = key_}));
}

void NamedOperation::start_reduce_scatter(group::OperationQueue& queue, group::RankAndSize self) {
  for (std::size_t k = 0; k < outputs_.size(); k++) {
    Tensor input = request_.inputs[k].tensor();
    if (request_.prescale != 1 && is_integer(input.dtype)) {
      memory_.push_back(std::make_unique<OutputMemory>(input.bytes()));
      const Tensor scaled(memory_.back()->data(), input.count, input.dtype);
      scale_integers(input, scaled, request_.prescale);
      input = scaled;
    }
    const std::vector<std::uint64_t>& shape = request_.inputs[k].shape;
    const Sizes counts = times(shares(shape[0], self.size), row_count(shape));
    ReduceOptions its = options(input.dtype);
    its.counts = counts;
    add(queue, operations::reduce_scatter(self, input, outputs_[k].tensor(), request_.op, its));
  }
}

std::optional<Error> NamedOperation::error() const {
  if (error_) return error_;
  if (on_device_) return on_device_->error();
  for (const Work& work : works_)
    if (work->error) return work->error;
  return std::nullopt;
}

bool NamedOperation::done() {
  if (!decided.load(std::memory_order_acquire)) return false;
  if (on_device_) return error_ || on_device_->done();
  if (!works_.empty() && !works_.back()->done.load(std::memory_order_acquire)) return false;
  complete();
  return true;
}

bool NamedOperation::wait(group::Until until) {
  if (on_device_) return error_ || on_device_->wait(until);
  if (!works_.empty() && !works_.back()->owner->wait(*works_.back(), until)) return false;
  complete();
  return true;
}

// By the first thread that sees that it is done.
void NamedOperation::complete() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(completed_, true) || request_.postscale == 1 || error()) return;
  const std::vector<ArrayView>& results = verb() == Verb::reduce_scatter ? outputs_
                                          : request_.outputs.empty()     ? request_.inputs
                                                                         : request_.outputs;
  for (const ArrayView& each : results)
    if (is_integer(each.dtype)) scale_integers(each.tensor(), each.tensor(), request_.postscale);
}

}  // namespace anello::agenda
