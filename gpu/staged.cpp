#include "gpu/staged.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <vector>

#include "gpu/or_abort.hpp"
#include "ring/base/check.hpp"
#include "ring/base/signature.hpp"
#include "ring/group/group_impl.hpp"

namespace anello::gpu {
namespace {

std::size_t count_of(std::span<const Tensor> list) {
  std::size_t count = 0;
  for (const Tensor& tensor : list) count += tensor.count;
  return count;
}

// All ranks must cut into the same segments, so the counts are compared: otherwise a rank whose tensors have more
// elements would take the others' next operation for its own.
std::uint64_t token_of(std::uint64_t token, std::span<const Tensor> list) {
  for (const Tensor& tensor : list) token = fingerprint(token, tensor.count);
  return token;
}

// Likewise for parts: adds the whole size, and each rank's part if parts differ.
std::uint64_t token_of(std::uint64_t token, std::uint64_t whole, std::span<const std::uint64_t> counts) {
  token = fingerprint(token, whole);
  for (const std::uint64_t count : counts) token = fingerprint(token, count);
  return token;
}

// For parts that are equal to this rank's, or have the call's counts.
std::uint64_t token_of(const GpuCall& call, std::uint64_t part, int ranks) {
  const std::uint64_t whole = plan::Parts(ranks, part, call.options.counts).whole();
  return token_of(call.options.consistency_token, whole, call.options.counts);
}

// Returns the counts of one segment; empty if all parts have the same size.
std::span<const std::uint64_t> given(std::span<const std::uint64_t> counts, std::span<const std::uint64_t> now) {
  return counts.empty() ? counts : now;
}

}  // namespace

// A segment is at least so large that each rank's part has an element of 8 bytes, and for alltoall two.
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

// Memory that the device may still use is leaked, because freeing it could block for ever.
Staged::~Staged() {
  if (drain()) return;
  for (Slot& slot : slots_) slot.memory.leak();
  input_.leak();
  output_.leak();
}

// Waits until the device no longer uses the pinned memory, so that it can be reused or freed. False: it still does.
bool Staged::drain() noexcept {
  try {
    const DeviceGuard guard(device_);
    for (const Stream* stream : {&down_, &up_}) {
      record(device_, order_, stream->get());
      wait(device_, order_, limits_.copy.count() > 0 ? limits_.copy : kLastWait, "the end of copies under way");
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

// On failure, waits for outstanding copies before it rethrows, because the caller may free its tensors.
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

// While a segment is sent, the next one is copied from the device, and the one before it is copied back.
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
      // The group writes to this memory, so the upload of its previous contents must be done.
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

void Staged::run_list(std::span<const ConstTensor> from, std::span<const Tensor> to, std::size_t count, DType dtype,
                      GpuStream stream, const std::function<void(Tensor segment)>& collective) {
  const std::size_t elems = std::max<std::size_t>(1, segment_elems(dtype)), bytes = elems * size_bytes(dtype);
  Segmented tensors{std::max<std::size_t>(1, (count + elems - 1) / elems), nullptr, nullptr, nullptr};
  if (!from.empty()) tensors.from = ListCut<const void*, ConstTensor>(from, bytes);
  if (!to.empty()) tensors.to = ListCut<void*, Tensor>(to, bytes);
  tensors.collective = [&](std::byte* memory, std::size_t k) {
    collective({memory, std::min(elems, count - k * elems), dtype});
  };
  run_in_segments(tensors, stream);
}

void Staged::carry_out(const GpuCall& call) {
  switch (call.kind) {
    case Kind::allreduce:
      return stage_allreduce(call);
    case Kind::reduce:
      return stage_reduce(call);
    case Kind::broadcast:
      return stage_broadcast(call);
    case Kind::allgather:
      return stage_allgather(call);
    case Kind::gather:
      return stage_gather(call);
    case Kind::scatter:
      return stage_scatter(call);
    case Kind::reduce_scatter:
      return stage_reduce_scatter(call);
    case Kind::alltoall:
      return stage_alltoall(call);
    case Kind::transfer:
      return stage_transfer(call);
    case Kind::barrier:
      break;
  }
  ANELLO_CHECK(!"an operation on tensors");
}

void Staged::stage_allreduce(const GpuCall& call) {
  const std::vector<ConstTensor> list(call.list.begin(), call.list.end());
  const auto from = list.empty() ? std::span(&call.input, 1) : std::span(list);
  const auto to = list.empty() ? std::span(&call.output, 1) : call.list;
  ReduceOptions segment_options = call.options;
  segment_options.consistency_token = token_of(call.options.consistency_token, to);
  run_list(from, to, count_of(to), to[0].dtype, call.stream,
           [&](Tensor segment) { group_.allreduce(segment, call.op, segment_options); });
}

void Staged::stage_reduce(const GpuCall& call) {
  ReduceOptions segment_options = call.options;
  segment_options.consistency_token = fingerprint(call.options.consistency_token, call.input.count);
  const std::span<const Tensor> to(&call.output, group_.rank() == call.root ? 1 : 0);
  run_list(std::span(&call.input, 1), to, call.input.count, call.input.dtype, call.stream,
           [&](Tensor segment) { group_.reduce(segment, call.root, call.op, segment_options); });
}

void Staged::stage_broadcast(const GpuCall& call) {
  const std::span<const Tensor> list = call.list;
  const Options segment_options{call.options.name, token_of(call.options.consistency_token, list)};
  std::vector<ConstTensor> from;
  if (group_.rank() == call.root) from.assign(list.begin(), list.end());
  const auto to = group_.rank() == call.root ? std::span<const Tensor>() : list;
  run_list(from, to, count_of(list), list[0].dtype, call.stream,
           [&](Tensor segment) { group_.broadcast(segment, call.root, segment_options); });
}

// Uses separate memory for input and output, which grows.
void Staged::run_whole(const GpuCall& call, const std::function<void(ConstTensor, Tensor)>& collective) {
  const ConstTensor& input = call.input;
  const Tensor& output = call.output;
  const auto at_least = [&](PinnedMemory& memory, std::size_t& capacity, std::size_t bytes) {
    if (bytes <= capacity) return;
    memory = make_pinned(device_, bytes);
    capacity = bytes;
  };
  on_device(call.stream, [&] {
    at_least(input_, input_bytes_, input.bytes());
    begin(call.stream);
    copy(device_, input_.get(), input.data, input.bytes(), down_.get());
    record(device_, order_, down_.get());
    wait(device_, order_, limits_.copy, "copying to the host");
    wait(device_, output_free_, limits_.copy, "copying from the host");  // of the call before
    at_least(output_, output_bytes_, output.bytes());
    collective({input_.get(), input.count, input.dtype}, {output_.get(), output.count, output.dtype});
    copy(device_, output.data, output_.get(), output.bytes(), up_.get());
    record(device_, output_free_, up_.get());
    end(call.stream);
  });
}

// In place in the segment's memory, which has the parts of all ranks.
void Staged::stage_allgather(const GpuCall& call) {
  const int me = group_.rank(), ranks = group_.size();
  const std::size_t size = size_bytes(call.input.dtype);
  const PartsCut cut({ranks, call.input.count, call.options.counts}, ranks,
                     segment_elems(call.input.dtype) / std::size_t(ranks));
  const std::uint64_t token = token_of(call.options.consistency_token, call.output.count, call.options.counts);
  run_in_segments({cut.segments(),
                   [&](std::size_t k, EachPiece<const void*> each) {
                     cut.one(me, call.input.data, cut.within(me, k).begin, size, k, each);
                   },
                   [&](std::size_t k, EachPiece<void*> each) { cut.all(call.output.data, size, k, each); },
                   [&](std::byte* memory, std::size_t k) {
                     const auto counts = cut.counts(k);
                     const plan::Range own = cut.within(me, k);
                     group_.allgather(ConstTensor(memory + own.begin * size, own.count, call.input.dtype),
                                      Tensor(memory, cut.whole(k), call.input.dtype),
                                      {call.options.name, given(call.options.counts, counts), token});
                   }},
                  call.stream);
}

void Staged::stage_gather(const GpuCall& call) {
  const int me = group_.rank(), ranks = group_.size();
  const bool is_root = me == call.root;
  const std::size_t size = size_bytes(call.input.dtype);
  const PartsCut cut({ranks, call.input.count, call.options.counts}, ranks,
                     segment_elems(call.input.dtype) / std::size_t(ranks));
  const std::uint64_t token = token_of(call, call.input.count, ranks);
  const auto begin = [&](std::size_t k) { return is_root ? cut.within(me, k).begin : 0; };
  Segmented tensors{
      cut.segments(),
      [&](std::size_t k, EachPiece<const void*> each) { cut.one(me, call.input.data, begin(k), size, k, each); },
      nullptr,
      [&](std::byte* memory, std::size_t k) {
        const auto counts = cut.counts(k);
        const ConstTensor own(memory + begin(k) * size, cut.within(me, k).count, call.input.dtype);
        const Tensor all(is_root ? memory : nullptr, is_root ? cut.whole(k) : 0, call.input.dtype);
        group_.gather(own, all, call.root, {call.options.name, given(call.options.counts, counts), token});
      }};
  if (is_root) tensors.to = [&](std::size_t k, EachPiece<void*> each) { cut.all(call.output.data, size, k, each); };
  run_in_segments(tensors, call.stream);
}

void Staged::stage_scatter(const GpuCall& call) {
  const int me = group_.rank(), ranks = group_.size();
  const bool is_root = me == call.root;
  const std::size_t size = size_bytes(call.output.dtype);
  const PartsCut cut({ranks, call.output.count, call.options.counts}, ranks,
                     segment_elems(call.output.dtype) / std::size_t(ranks));
  const std::uint64_t token = token_of(call, call.output.count, ranks);
  const auto begin = [&](std::size_t k) { return is_root ? cut.within(me, k).begin : 0; };
  Segmented tensors{
      cut.segments(), nullptr,
      [&](std::size_t k, EachPiece<void*> each) { cut.one(me, call.output.data, begin(k), size, k, each); },
      [&](std::byte* memory, std::size_t k) {
        const auto counts = cut.counts(k);
        const ConstTensor all(is_root ? memory : nullptr, is_root ? cut.whole(k) : 0, call.output.dtype);
        const Tensor own(memory + begin(k) * size, cut.within(me, k).count, call.output.dtype);
        group_.scatter(all, own, call.root, {call.options.name, given(call.options.counts, counts), token});
      }};
  if (is_root)
    tensors.from = [&](std::size_t k, EachPiece<const void*> each) { cut.all(call.input.data, size, k, each); };
  run_in_segments(tensors, call.stream);
}

void Staged::stage_reduce_scatter(const GpuCall& call) {
  const int me = group_.rank(), ranks = group_.size();
  const std::size_t size = size_bytes(call.input.dtype);
  const PartsCut cut({ranks, call.output.count, call.options.counts}, ranks,
                     segment_elems(call.input.dtype) / std::size_t(ranks));
  ReduceOptions its = call.options;
  its.consistency_token = token_of(call.options.consistency_token, call.input.count, call.options.counts);
  run_in_segments(
      {cut.segments(), [&](std::size_t k, EachPiece<const void*> each) { cut.all(call.input.data, size, k, each); },
       [&](std::size_t k, EachPiece<void*> each) {
         cut.one(me, call.output.data, cut.within(me, k).begin, size, k, each);
       },
       [&](std::byte* memory, std::size_t k) {
         const auto counts = cut.counts(k);
         const plan::Range own = cut.within(me, k);
         ReduceOptions now = its;
         now.counts = given(call.options.counts, counts);
         group_.reduce_scatter(ConstTensor(memory, cut.whole(k), call.input.dtype),
                               Tensor(memory + own.begin * size, own.count, call.input.dtype), call.op, now);
       }},
      call.stream);
}

// Not in place: received data goes into the second half of the segment's memory.
void Staged::stage_alltoall(const GpuCall& call) {
  if (!call.options.counts.empty())
    return run_whole(call, [&](ConstTensor in, Tensor out) {
      group_.alltoall(in, out, call.options.counts, call.recv_counts, call.common_options());
    });
  const int ranks = group_.size();
  const std::size_t size = size_bytes(call.input.dtype), half = segment_elems(call.input.dtype) / 2;
  const PartsCut cut({ranks, call.input.count / std::uint64_t(ranks), {}}, ranks, half / std::size_t(ranks));
  const Options its{call.options.name, token_of(call.options.consistency_token, call.input.count, {})};
  const auto second = [&](std::size_t k) { return cut.whole(k) * size; };
  run_in_segments(
      {cut.segments(), [&](std::size_t k, EachPiece<const void*> each) { cut.all(call.input.data, size, k, each); },
       [&](std::size_t k, EachPiece<void*> each) {
         cut.all<void*>(call.output.data, size, k, [&](void* piece, std::size_t offset, std::size_t bytes) {
           each(piece, second(k) + offset, bytes);
         });
       },
       [&](std::byte* memory, std::size_t k) {
         group_.alltoall(ConstTensor(memory, cut.whole(k), call.input.dtype),
                         Tensor(memory + second(k), cut.whole(k), call.input.dtype), its);
       }},
      call.stream);
}

}  // namespace anello::gpu
