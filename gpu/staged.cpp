#include "gpu/staged.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <vector>

#include "gpu/or_abort.hpp"
#include "ring/base/signature.hpp"
#include "ring/group/group_impl.hpp"

namespace anello::gpu {
namespace {

// All ranks must cut into the same segments, so the values that determine the segments are compared. Otherwise a rank
// with more elements would mistake the other ranks' next operation for its own.
std::uint64_t token_of(const Call& call) {
  return fingerprint(call.fingerprint, call.count);
}

ReduceOptions of_segments(const Call& call) {
  ReduceOptions options = options_of(call);
  options.consistency_token = token_of(call);
  return options;
}

// Returns the counts for one segment; empty if all parts have the same size.
std::span<const std::uint64_t> given(std::span<const std::uint64_t> counts, std::span<const std::uint64_t> now) {
  return counts.empty() ? counts : now;
}

}  // namespace

// Enforces the minimum size of a segment: each rank's part has room for an element of 8 bytes, and for two such
// elements in an alltoall.
Staged::Staged(Group group, const Device& device, const Limits& limits)
    : group_(std::move(group)),
      device_(device),
      limits_{std::max(limits.segment_bytes, 16 * std::size_t(group_.size())), limits.copy},
      down_(make_stream(device)),
      up_(make_stream(device)),
      order_(make_event(device)),
      output_free_(make_event(device)) {
  for (Slot& slot : slots_) slot = {make_pinned(device, limits_.segment_bytes), make_event(device), make_event(device)};
}

void Staged::check_stream(const Device& device, GpuStream stream) {
  refuse_capture(device, stream, "a call that goes through host memory");
}

void Staged::give_up() {
  GroupAccess::end(group_, false);
}

// Leaks the memory that the device may still use, because freeing it could block for ever.
Staged::~Staged() {
  if (drain()) return;
  for (Slot& slot : slots_) slot.memory.leak();
  input_.leak();
  output_.leak();
}

// Waits until the device no longer uses the pinned memory, so that the memory can be reused or freed. False if the
// device still uses it.
bool Staged::drain() noexcept {
  try {
    const DeviceGuard guard(device_);
    for (const Stream* stream : {&down_, &up_}) {
      record(device_, order_, stream->get());
      wait(device_, order_, limits_.copy.count() > 0 ? limits_.copy : kLastWait, "the end of unfinished copies");
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

// On failure, waits for unfinished copies before it rethrows, because the caller may free its tensors.
template <class Body>
void Staged::on_device(GpuStream stream, Body body) {
  check_stream(device_, stream);
  try {
    or_abort(group_, [&] {
      const DeviceGuard guard(device_);
      body();
    });
  } catch (...) {
    drain();
    throw;
  }
}

void Staged::begin(GpuStream stream) {
  order(device_, order_, stream, down_.get());
  order(device_, order_, stream, up_.get());
}

void Staged::end(GpuStream stream) {
  order(device_, order_, up_.get(), stream);
}

void Staged::download(Slot& slot, const Segmented& tensors, std::size_t segment) {
  follow(device_, down_.get(), slot.uploaded);
  tensors.from(segment, [&](const void* piece, std::size_t offset, std::size_t bytes) {
    copy(device_, moved(slot.memory.get(), offset), piece, bytes, down_.get());
  });
  record(device_, slot.downloaded, down_.get());
}

void Staged::upload(Slot& slot, const Segmented& tensors, std::size_t segment) {
  tensors.to(segment, [&](void* piece, std::size_t offset, std::size_t bytes) {
    copy(device_, piece, moved(slot.memory.get(), offset), bytes, up_.get());
  });
  record(device_, slot.uploaded, up_.get());
}

// While a segment is sent, copies the next segment from the device and the previous segment back to it.
void Staged::run_in_segments(const Segmented& tensors, GpuStream stream) {
  on_device(stream, [&] {
    begin(stream);
    const auto fetch = [&](std::size_t k) {
      if (k < tensors.segments && tensors.from) download(slots_[k % kSlots], tensors, k);
    };
    fetch(0);
    for (std::size_t k = 0; k < tensors.segments; k++) {
      fetch(k + 1);
      Slot& slot = slots_[k % kSlots];
      // The collective writes to this memory, so wait until its previous contents have been copied to the device.
      if (tensors.from)
        wait(device_, slot.downloaded, limits_.copy, "copying to the host");
      else
        wait(device_, slot.uploaded, limits_.copy, "copying from the host");
      tensors.collective(static_cast<std::byte*>(slot.memory.get()), k);
      if (tensors.to) upload(slot, tensors, k);
    }
    end(stream);
  });
}

// `has_input`: this rank sends its own elements. `has_output`: this rank gets the result.
void Staged::run_list(const Call& call, bool has_input, bool has_output, GpuStream stream,
                      const std::function<void(Tensor segment)>& collective) {
  std::vector<ConstTensor> from;
  std::vector<Tensor> to;
  if (has_input)
    for (const Tensor& tensor : tensors_of(call.input, call.dtype)) from.emplace_back(tensor);
  if (has_output) to = tensors_of(call.output, call.dtype);
  const std::size_t elems = std::max<std::size_t>(1, segment_elems(call.dtype)), bytes = elems * size_bytes(call.dtype);
  Segmented tensors{std::max<std::size_t>(1, (call.count + elems - 1) / elems), nullptr, nullptr, nullptr};
  if (has_input) tensors.from = ListCut<const void*, ConstTensor>(from, bytes);
  if (has_output) tensors.to = ListCut<void*, Tensor>(to, bytes);
  tensors.collective = [&](std::byte* memory, std::size_t k) {
    collective({memory, std::min(elems, call.count - k * elems), call.dtype});
  };
  run_in_segments(tensors, stream);
}

template <>
void Staged::stage<Kind::allreduce>(const Call& call, GpuStream stream) {
  run_list(call, true, true, stream, [&](Tensor segment) { group_.allreduce(segment, call.op, of_segments(call)); });
}

template <>
void Staged::stage<Kind::reduce>(const Call& call, GpuStream stream) {
  run_list(call, true, group_.rank() == call.root, stream,
           [&](Tensor segment) { group_.reduce(segment, call.root, call.op, of_segments(call)); });
}

template <>
void Staged::stage<Kind::broadcast>(const Call& call, GpuStream stream) {
  const bool is_root = group_.rank() == call.root;
  run_list(call, is_root, !is_root, stream, [&](Tensor segment) {
    group_.broadcast(segment, call.root, {call.name, token_of(call)});
  });
}

// Carries out the call without cutting it into segments. Uses separate memory for input and output, which grows if
// needed.
void Staged::run_whole(const Call& call, GpuStream stream, const std::function<void(ConstTensor, Tensor)>& collective) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const auto at_least = [&](PinnedMemory& memory, std::size_t& capacity, std::size_t bytes) {
    if (bytes <= capacity) return;
    memory = make_pinned(device_, bytes);
    capacity = bytes;
  };
  on_device(stream, [&] {
    at_least(input_, input_bytes_, input.bytes());
    begin(stream);
    copy(device_, input_.get(), input.data, input.bytes(), down_.get());
    record(device_, order_, down_.get());
    wait(device_, order_, limits_.copy, "copying to the host");
    wait(device_, output_free_, limits_.copy, "copying from the host");  // waits for the previous call's copy
    at_least(output_, output_bytes_, output.bytes());
    collective({input_.get(), input.count, input.dtype}, {output_.get(), output.count, output.dtype});
    copy(device_, output.data, output_.get(), output.bytes(), up_.get());
    record(device_, output_free_, up_.get());
    end(stream);
  });
}

// Works in place in the segment's memory, which has the parts of all ranks.
template <>
void Staged::stage<Kind::allgather>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const int me = group_.rank(), ranks = group_.size();
  const std::size_t size = size_bytes(call.dtype);
  const PartsCut cut({ranks, input.count, call.counts}, ranks, segment_elems(call.dtype) / std::size_t(ranks));
  run_in_segments({cut.segments(),
                   [&](std::size_t k, EachPiece<const void*> each) {
                     cut.one(me, input.data, cut.within(me, k).begin, size, k, each);
                   },
                   [&](std::size_t k, EachPiece<void*> each) { cut.all(output.data, size, k, each); },
                   [&](std::byte* memory, std::size_t k) {
                     const auto counts = cut.counts(k);
                     const plan::Range own = cut.within(me, k);
                     group_.allgather(ConstTensor(memory + own.begin * size, own.count, call.dtype),
                                      Tensor(memory, cut.whole(k), call.dtype),
                                      {call.name, given(call.counts, counts), token_of(call)});
                   }},
                  stream);
}

template <>
void Staged::stage<Kind::gather>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const int me = group_.rank(), ranks = group_.size();
  const bool is_root = me == call.root;
  const std::size_t size = size_bytes(call.dtype);
  const PartsCut cut({ranks, input.count, call.counts}, ranks, segment_elems(call.dtype) / std::size_t(ranks));
  const auto begin = [&](std::size_t k) { return is_root ? cut.within(me, k).begin : 0; };
  Segmented tensors{
      cut.segments(),
      [&](std::size_t k, EachPiece<const void*> each) { cut.one(me, input.data, begin(k), size, k, each); }, nullptr,
      [&](std::byte* memory, std::size_t k) {
        const auto counts = cut.counts(k);
        const ConstTensor own(memory + begin(k) * size, cut.within(me, k).count, call.dtype);
        const Tensor all(is_root ? memory : nullptr, is_root ? cut.whole(k) : 0, call.dtype);
        group_.gather(own, all, call.root, {call.name, given(call.counts, counts), token_of(call)});
      }};
  if (is_root) tensors.to = [&](std::size_t k, EachPiece<void*> each) { cut.all(output.data, size, k, each); };
  run_in_segments(tensors, stream);
}

template <>
void Staged::stage<Kind::scatter>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const int me = group_.rank(), ranks = group_.size();
  const bool is_root = me == call.root;
  const std::size_t size = size_bytes(call.dtype);
  const PartsCut cut({ranks, output.count, call.counts}, ranks, segment_elems(call.dtype) / std::size_t(ranks));
  const auto begin = [&](std::size_t k) { return is_root ? cut.within(me, k).begin : 0; };
  Segmented tensors{cut.segments(), nullptr,
                    [&](std::size_t k, EachPiece<void*> each) { cut.one(me, output.data, begin(k), size, k, each); },
                    [&](std::byte* memory, std::size_t k) {
                      const auto counts = cut.counts(k);
                      const ConstTensor all(is_root ? memory : nullptr, is_root ? cut.whole(k) : 0, call.dtype);
                      const Tensor own(memory + begin(k) * size, cut.within(me, k).count, call.dtype);
                      group_.scatter(all, own, call.root, {call.name, given(call.counts, counts), token_of(call)});
                    }};
  if (is_root) tensors.from = [&](std::size_t k, EachPiece<const void*> each) { cut.all(input.data, size, k, each); };
  run_in_segments(tensors, stream);
}

template <>
void Staged::stage<Kind::reduce_scatter>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  const int me = group_.rank(), ranks = group_.size();
  const std::size_t size = size_bytes(call.dtype);
  const PartsCut cut({ranks, output.count, call.counts}, ranks, segment_elems(call.dtype) / std::size_t(ranks));
  run_in_segments(
      {cut.segments(), [&](std::size_t k, EachPiece<const void*> each) { cut.all(input.data, size, k, each); },
       [&](std::size_t k, EachPiece<void*> each) { cut.one(me, output.data, cut.within(me, k).begin, size, k, each); },
       [&](std::byte* memory, std::size_t k) {
         const auto counts = cut.counts(k);
         const plan::Range own = cut.within(me, k);
         ReduceOptions now = of_segments(call);
         now.counts = given(call.counts, counts);
         group_.reduce_scatter(ConstTensor(memory, cut.whole(k), call.dtype),
                               Tensor(memory + own.begin * size, own.count, call.dtype), call.op, now);
       }},
      stream);
}

// Does not work in place: received data goes into the second half of the segment's memory.
template <>
void Staged::stage<Kind::alltoall>(const Call& call, GpuStream stream) {
  const ConstTensor input = tensor_of(call.input, call.dtype);
  const Tensor output = tensor_of(call.output, call.dtype);
  if (!call.counts.empty())
    return run_whole(call, stream, [&](ConstTensor in, Tensor out) {
      group_.alltoall(in, out, call.counts, call.received, {call.name, call.token});
    });
  const int ranks = group_.size();
  const std::size_t size = size_bytes(call.dtype), half = segment_elems(call.dtype) / 2;
  const PartsCut cut({ranks, call.count, {}}, ranks, half / std::size_t(ranks));
  const Options its{call.name, token_of(call)};
  const auto second = [&](std::size_t k) { return cut.whole(k) * size; };
  run_in_segments(
      {cut.segments(), [&](std::size_t k, EachPiece<const void*> each) { cut.all(input.data, size, k, each); },
       [&](std::size_t k, EachPiece<void*> each) {
         cut.all<void*>(output.data, size, k, [&](void* piece, std::size_t offset, std::size_t bytes) {
           each(piece, second(k) + offset, bytes);
         });
       },
       [&](std::byte* memory, std::size_t k) {
         group_.alltoall(ConstTensor(memory, cut.whole(k), call.dtype),
                         Tensor(memory + second(k), cut.whole(k), call.dtype), its);
       }},
      stream);
}

void Staged::carry_out(const Call& call, GpuStream stream) {
  by_kind(call.kind, [&](auto kind) { stage<kind()>(call, stream); });
}

}  // namespace anello::gpu
