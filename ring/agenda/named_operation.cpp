#include "ring/agenda/named_operation.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "ring/agenda/elements.hpp"
#include "ring/base/signature.hpp"
#include "ring/group/arguments.hpp"

namespace anello::agenda {
namespace {

namespace calls = group::calls;

constexpr std::size_t kHugePage = 2 << 20, kCacheLine = 64;
// glibc's malloc() keeps smaller memory for the next call. Larger memory is new each time.
constexpr std::size_t kAlwaysNew = 32 << 20;

// Its text is for the other ranks. Making it needs no memory.
class NoMemory final : public std::bad_alloc {
 public:
  explicit NoMemory(std::size_t bytes) {
    std::snprintf(text_.data(), text_.size(), "there is no memory for a tensor of %zu bytes", bytes);
  }
  const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 80> text_;
};

std::uint64_t sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t(0));
}

Sizes times(Sizes sizes, std::uint64_t factor) {
  for (std::uint64_t& size : sizes) size *= factor;
  return sizes;
}

// Returns how many rows each rank contributes to this rank's output k.
Sizes rows_of(const Agreed& agreed, std::size_t k) {
  Sizes rows;
  for (const Sizes& sizes : agreed.sizes) rows.push_back(sizes.at(k));
  return rows;
}

}  // namespace

// New memory costs more time for its pages than the data that moves there: 32 MiB take 17 ms in pages of 4 KiB, and 2.7
// ms in pages of 2 MiB. Without support for these, nothing changes.
OutputMemory::OutputMemory(std::size_t bytes)
    : alignment_{bytes >= kAlwaysNew ? kHugePage : kCacheLine}, data_(::operator new(bytes, alignment_, std::nothrow)) {
  if (!data_) throw NoMemory(bytes);
  if (bytes >= kAlwaysNew) madvise(data_, bytes, MADV_HUGEPAGE);
}

NamedOperation::NamedOperation(NamedCall request, std::shared_ptr<DeviceOperation> on_device, group::RankAndSize self)
    : request_(std::move(request)), on_device_(std::move(on_device)) {
  request_.name = {};
  if (verb() != Verb::reduce_scatter) return;
  for (const ArrayView& input : request_.inputs) {
    std::vector<std::uint64_t> shape = input.shape;
    shape[0] = shares(shape[0], self.size)[std::size_t(self.rank)];
    make_output(std::move(shape), input.dtype);
    if (scales_integers(input.dtype)) scaled_inputs_.push_back(make_memory(count(input.shape), input.dtype));
  }
}

// A joined rank contributes neutral elements. Its prescale factor is not applied to them, because the products would
// not be neutral.
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

void* NamedOperation::make_memory(std::uint64_t elems, DType dtype) {
  if (elems > PTRDIFF_MAX / size_bytes(dtype)) throw std::bad_alloc();
  return memory_.emplace_back(std::make_unique<OutputMemory>(elems * size_bytes(dtype)))->data();
}

void* NamedOperation::make_output(std::vector<std::uint64_t> shape, DType dtype) {
  void* const memory = make_memory(count(shape), dtype);
  outputs_.push_back({memory, std::move(shape), dtype});
  return memory;
}

void NamedOperation::prepare(const Agreed& agreed, group::RankAndSize self, DeviceCarrier* carrier) {
  if (agreed.description.on_gpu && !on_device_) {
    if (!carrier)
      throw Error(
          ErrorCode::unsupported,
          "this rank has joined, and its agenda was given no GPUs: all ranks call anello_agenda_use_gpus, or none");
    on_device_ = carrier->make_neutral(request_);
  }
  works_.reserve(request_.inputs.size());
  if (verb() != Verb::allgather && verb() != Verb::alltoall) return;
  for (std::size_t k = 0; k < request_.inputs.size(); k++) {
    std::vector<std::uint64_t> shape = request_.inputs[k].shape;
    rows_.push_back(rows_of(agreed, verb() == Verb::allgather ? k : std::size_t(self.rank)));
    shape[0] = sum(rows_.back());
    make_output(std::move(shape), request_.inputs[k].dtype);
  }
}

// Queues one call. Cannot fail after the call is queued, because prepare() has reserved room in the list of works. The
// operation may already be done before add() returns.
void NamedOperation::add(group::OperationQueue& queue, const group::Call& call) {
  left_++;
  try {
    works_.push_back(
        queue.submit_quietly(call, [alive = shared_from_this()](const Error* error) { alive->note_end(error); }));
  } catch (...) {
    left_--;
    throw;
  }
}

bool NamedOperation::scales_integers(DType dtype) const {
  return request_.prescale != 1 && is_integer(dtype);
}

// Sends the key as the operations' name and token, which are compared, so that ranks never combine elements of
// different operations.
ReduceOptions NamedOperation::options(DType dtype) const {
  const bool scales = is_float(dtype);
  return {.name = key_,
          .wire = request_.wire,
          .prescale = scales ? request_.prescale : 1,
          .postscale = scales ? request_.postscale : 1,
          .consistency_token = fingerprint(key_)};
}

template <>
void NamedOperation::start_works<Verb::allreduce>(const Agreed&, group::OperationQueue& queue, group::RankAndSize) {
  const auto self = shared_from_this();
  if (request_.inputs.size() > 1) return start_list({&self, 1}, queue);
  Tensor input = request_.inputs[0].tensor();
  const Tensor output = request_.outputs.empty() ? input : request_.outputs[0].tensor();
  if (scales_integers(input.dtype)) {
    scale_integers(input, output, request_.prescale);
    input = output;
  }
  add(queue, calls::allreduce(input, output, request_.op, options(input.dtype)));
}

template <>
void NamedOperation::start_works<Verb::broadcast>(const Agreed&, group::OperationQueue& queue,
                                                  group::RankAndSize self) {
  for (const auto& list : by_dtype(request_.inputs)) {
    std::vector<run::Buffer::Piece> pieces;
    add(queue, calls::broadcast(self, tensors_of(request_.inputs, list), pieces, request_.root,
                                {.name = key_, .consistency_token = fingerprint(key_)}));
  }
}

template <>
void NamedOperation::start_works<Verb::allgather>(const Agreed&, group::OperationQueue& queue,
                                                  group::RankAndSize self) {
  for (std::size_t k = 0; k < outputs_.size(); k++) {
    const Sizes counts = times(rows_[k], row_count(outputs_[k].shape));
    add(queue, calls::allgather(self, request_.inputs[k].tensor(), outputs_[k].tensor(),
                                {.name = key_, .counts = counts, .consistency_token = fingerprint(key_)}));
  }
}

template <>
void NamedOperation::start_works<Verb::alltoall>(const Agreed& agreed, group::OperationQueue& queue,
                                                 group::RankAndSize self) {
  const std::uint64_t elems = row_count(outputs_[0].shape);
  const Sizes send = times(agreed.sizes[std::size_t(self.rank)], elems), receive = times(rows_[0], elems);
  add(queue, calls::alltoall(self, request_.inputs[0].tensor(), outputs_[0].tensor(), send, receive,
                             {.name = key_, .consistency_token = fingerprint(key_)}));
}

template <>
void NamedOperation::start_works<Verb::reduce_scatter>(const Agreed&, group::OperationQueue& queue,
                                                       group::RankAndSize self) {
  auto scaled = scaled_inputs_.begin();
  for (std::size_t k = 0; k < outputs_.size(); k++) {
    Tensor input = request_.inputs[k].tensor();
    if (scales_integers(input.dtype)) {
      const Tensor multiplied(*scaled++, input.count, input.dtype);
      scale_integers(input, multiplied, request_.prescale);
      input = multiplied;
    }
    const std::vector<std::uint64_t>& shape = request_.inputs[k].shape;
    const Sizes counts = times(shares(shape[0], self.size), row_count(shape));
    ReduceOptions its = options(input.dtype);
    its.counts = counts;
    add(queue, calls::reduce_scatter(self, input, outputs_[k].tensor(), request_.op, its));
  }
}

// A barrier starts no operation: it is done as soon as all ranks have agreed that it can begin.
template <>
void NamedOperation::start_works<Verb::barrier>(const Agreed&, group::OperationQueue&, group::RankAndSize) {}

void NamedOperation::start(const Agreed& agreed, group::OperationQueue& queue, group::RankAndSize self) {
  if (on_device_) return on_device_->start(key_);
  switch (verb()) {
#define ANELLO_NAMED(name, ...) \
  case Verb::name:              \
    return start_works<Verb::name>(agreed, queue, self);
#include "ring/base/collectives.def"
    case Verb::join:
      return;
  }
}

// A join waits for this rank's contributions, because other ranks need them, and the program may end the world as soon
// as the join is done.
void NamedOperation::set_last(int rank, std::vector<std::shared_ptr<NamedOperation>> parts) {
  last_ = rank;
  parts_ = std::move(parts);
  for (const auto& part : parts_) {
    left_++;
    if (!part->when_done([self = shared_from_this()] { self->note_end(nullptr); })) left_--;
  }
}

std::optional<Error> NamedOperation::error() const {
  if (error_) return error_;
  for (const auto& part : parts_)
    if (std::optional<Error> why = part->error()) return why;
  if (on_device_) return on_device_->error();
  for (const Work& work : works_)
    if (work->error) return in_list_ ? Error(*work->error).within(key_) : *work->error;
  return std::nullopt;
}

bool NamedOperation::done() {
  if (!decided.load(std::memory_order_acquire)) return false;
  if (!std::ranges::all_of(parts_, [](const auto& part) { return part->done(); })) return false;
  if (on_device_) return error_ || on_device_->done();
  if (!works_.empty() && !works_.back()->done.load(std::memory_order_acquire)) return false;
  complete(error().has_value());
  return true;
}

bool NamedOperation::wait(group::Until until) {
  if (!std::ranges::all_of(parts_, [&](const auto& part) { return part->wait(until); })) return false;
  if (on_device_) return error_ || on_device_->wait(until);
  if (!works_.empty() && !works_.back()->owner->wait(*works_.back(), until)) return false;
  complete(error().has_value());
  return true;
}

// Called on the thread that completes one of the works. The handle may be gone.
void NamedOperation::note_end(const Error* error) {
  if (error) failed_ = true;
  if (--left_ > 0) return;
  complete(failed_);
  if (const auto callback = end()) callback();
}

// For an operation on a GPU, no thread waits for the end unless the operation has a callback.
std::function<void()> NamedOperation::settle() {
  decided.store(true, std::memory_order_release);
  if (--left_ > 0) return nullptr;
  const bool on_gpu = on_device_ && !error_;
  if (!on_gpu) {
    if (!works_.empty()) complete(failed_);
    return end();
  }
  const MutexLock lock(mutex_);
  is_on_its_way_ = true;
  return callback_ && !watch() ? std::exchange(callback_, nullptr) : nullptr;
}

// Call with the lock held. Makes the carrier call the operation's current callback when the operation is done. False if
// the carrier is closed.
bool NamedOperation::watch() {
  if (!is_watched_)
    is_watched_ = on_device_->when_done([self = shared_from_this()] {
      if (const auto callback = self->end()) callback();
    });
  return is_watched_;
}

std::function<void()> NamedOperation::end() {
  const MutexLock lock(mutex_);
  has_ended_ = true;
  return std::exchange(callback_, nullptr);
}

bool NamedOperation::when_done(std::function<void()> callback) {
  const MutexLock lock(mutex_);
  if (has_ended_ || (is_on_its_way_ && (on_device_->done() || !watch()))) return false;
  callback_ = std::move(callback);
  return true;
}

// Called by every thread that finds that the operation is done. The first thread does the work; the other threads wait
// here until it has done the work.
void NamedOperation::complete(bool failed) {
  if (request_.postscale == 1 && aside_.empty()) return;
  const MutexLock lock(mutex_);
  if (std::exchange(completed_, true) || failed) return;
  for (const auto& [from, to] : aside_) std::memcpy(to, from.data, from.bytes());
  const std::vector<ArrayView>& results = verb() == Verb::reduce_scatter ? outputs_
                                          : request_.outputs.empty()     ? request_.inputs
                                                                         : request_.outputs;
  for (const ArrayView& each : results)
    if (is_integer(each.dtype)) scale_integers(each.tensor(), each.tensor(), request_.postscale);
}

}  // namespace anello::agenda
