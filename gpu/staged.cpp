#include "gpu/staged.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <vector>

#include "gpu/or_abort.hpp"
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

// Waits because the memory is in use until the work is done. Its error is ignored; another one has been thrown already.
void wait_quietly(const Work& work) noexcept {
  try {
    work.wait();
  } catch (const Error&) {
  }
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
void Staged::carry_out(GpuStream stream, Body body) {
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
  carry_out(stream, [&] {
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

void Staged::allreduce(std::span<const ConstTensor> from, std::span<const Tensor> to, GpuStream stream, Op op,
                       const ReduceOptions& options) {
  ReduceOptions segment_options = options;
  segment_options.consistency_token = token_of(options.consistency_token, to);
  run_list(from, to, count_of(to), to[0].dtype, stream,
           [&](Tensor segment) { group_.allreduce(segment, op, segment_options); });
}

void Staged::allreduce(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  allreduce(std::span(&input, 1), std::span(&output, 1), stream, op, options);
}

void Staged::allreduce(std::span<const Tensor> list, GpuStream stream, Op op, const ReduceOptions& options) {
  if (!list.empty()) allreduce(std::vector<ConstTensor>(list.begin(), list.end()), list, stream, op, options);
}

void Staged::reduce(ConstTensor input, Tensor output, int root, GpuStream stream, Op op, const ReduceOptions& options) {
  ReduceOptions segment_options = options;
  segment_options.consistency_token = fingerprint(options.consistency_token, input.count);
  const std::span<const Tensor> to(&output, group_.rank() == root ? 1 : 0);
  run_list(std::span(&input, 1), to, input.count, input.dtype, stream,
           [&](Tensor segment) { group_.reduce(segment, root, op, segment_options); });
}

void Staged::broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) {
  if (list.empty()) return;
  const Options segment_options{options.name, token_of(options.consistency_token, list)};
  std::vector<ConstTensor> from;
  if (group_.rank() == root) from.assign(list.begin(), list.end());
  const auto to = group_.rank() == root ? std::span<const Tensor>() : list;
  run_list(from, to, count_of(list), list[0].dtype, stream,
           [&](Tensor segment) { group_.broadcast(segment, root, segment_options); });
}

// Uses separate memory for input and output, which grows.
void Staged::run_whole(ConstTensor input, Tensor output, GpuStream stream,
                       const std::function<void(ConstTensor, Tensor)>& call) {
  const auto at_least = [&](PinnedMemory& memory, std::size_t& capacity, std::size_t bytes) {
    if (bytes <= capacity) return;
    memory = make_pinned(device_, bytes);
    capacity = bytes;
  };
  carry_out(stream, [&] {
    at_least(input_, input_bytes_, input.bytes());
    begin(stream);
    copy(device_, input_.get(), input.data, input.bytes(), down_.get());
    record(device_, order_, down_.get());
    wait(device_, order_, limits_.copy, "copying to the host");
    wait(device_, output_free_, limits_.copy, "copying from the host");  // of the call before
    at_least(output_, output_bytes_, output.bytes());
    call({input_.get(), input.count, input.dtype}, {output_.get(), output.count, output.dtype});
    copy(device_, output.data, output_.get(), output.bytes(), up_.get());
    record(device_, output_free_, up_.get());
    end(stream);
  });
}

// In place in the segment's memory, which has the parts of all ranks.
void Staged::allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) {
  const int me = group_.rank(), ranks = group_.size();
  const std::size_t size = size_bytes(input.dtype);
  const PartsCut cut({ranks, input.count, options.counts}, ranks, segment_elems(input.dtype) / std::size_t(ranks));
  const std::uint64_t token = token_of(options.consistency_token, output.count, options.counts);
  run_in_segments({cut.segments(),
                   [&](std::size_t k, EachPiece<const void*> each) {
                     cut.one(me, input.data, cut.within(me, k).begin, size, k, each);
                   },
                   [&](std::size_t k, EachPiece<void*> each) { cut.all(output.data, size, k, each); },
                   [&](std::byte* memory, std::size_t k) {
                     const auto counts = cut.counts(k);
                     const plan::Range own = cut.within(me, k);
                     group_.allgather(ConstTensor(memory + own.begin * size, own.count, input.dtype),
                                      Tensor(memory, cut.whole(k), input.dtype),
                                      {options.name, given(options.counts, counts), token});
                   }},
                  stream);
}

void Staged::gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  const int me = group_.rank(), ranks = group_.size();
  const bool is_root = me == root;
  const std::size_t size = size_bytes(input.dtype);
  const PartsCut cut({ranks, input.count, options.counts}, ranks, segment_elems(input.dtype) / std::size_t(ranks));
  const std::uint64_t whole = plan::Parts(ranks, input.count, options.counts).whole();
  const std::uint64_t token = token_of(options.consistency_token, whole, options.counts);
  const auto begin = [&](std::size_t k) { return is_root ? cut.within(me, k).begin : 0; };
  Segmented tensors{
      cut.segments(),
      [&](std::size_t k, EachPiece<const void*> each) { cut.one(me, input.data, begin(k), size, k, each); }, nullptr,
      [&](std::byte* memory, std::size_t k) {
        const auto counts = cut.counts(k);
        const ConstTensor own(memory + begin(k) * size, cut.within(me, k).count, input.dtype);
        const Tensor all(is_root ? memory : nullptr, is_root ? cut.whole(k) : 0, input.dtype);
        group_.gather(own, all, root, {options.name, given(options.counts, counts), token});
      }};
  if (is_root) tensors.to = [&](std::size_t k, EachPiece<void*> each) { cut.all(output.data, size, k, each); };
  run_in_segments(tensors, stream);
}

void Staged::scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  const int me = group_.rank(), ranks = group_.size();
  const bool is_root = me == root;
  const std::size_t size = size_bytes(output.dtype);
  const PartsCut cut({ranks, output.count, options.counts}, ranks, segment_elems(output.dtype) / std::size_t(ranks));
  const std::uint64_t whole = plan::Parts(ranks, output.count, options.counts).whole();
  const std::uint64_t token = token_of(options.consistency_token, whole, options.counts);
  const auto begin = [&](std::size_t k) { return is_root ? cut.within(me, k).begin : 0; };
  Segmented tensors{cut.segments(), nullptr,
                    [&](std::size_t k, EachPiece<void*> each) { cut.one(me, output.data, begin(k), size, k, each); },
                    [&](std::byte* memory, std::size_t k) {
                      const auto counts = cut.counts(k);
                      const ConstTensor all(is_root ? memory : nullptr, is_root ? cut.whole(k) : 0, output.dtype);
                      const Tensor own(memory + begin(k) * size, cut.within(me, k).count, output.dtype);
                      group_.scatter(all, own, root, {options.name, given(options.counts, counts), token});
                    }};
  if (is_root) tensors.from = [&](std::size_t k, EachPiece<const void*> each) { cut.all(input.data, size, k, each); };
  run_in_segments(tensors, stream);
}

void Staged::reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  const int me = group_.rank(), ranks = group_.size();
  const std::size_t size = size_bytes(input.dtype);
  const PartsCut cut({ranks, output.count, options.counts}, ranks, segment_elems(input.dtype) / std::size_t(ranks));
  ReduceOptions its = options;
  its.consistency_token = token_of(options.consistency_token, input.count, options.counts);
  run_in_segments(
      {cut.segments(), [&](std::size_t k, EachPiece<const void*> each) { cut.all(input.data, size, k, each); },
       [&](std::size_t k, EachPiece<void*> each) { cut.one(me, output.data, cut.within(me, k).begin, size, k, each); },
       [&](std::byte* memory, std::size_t k) {
         const auto counts = cut.counts(k);
         const plan::Range own = cut.within(me, k);
         ReduceOptions now = its;
         now.counts = given(options.counts, counts);
         group_.reduce_scatter(ConstTensor(memory, cut.whole(k), input.dtype),
                               Tensor(memory + own.begin * size, own.count, input.dtype), op, now);
       }},
      stream);
}

// Not in place: received data goes into the second half of the segment's memory.
void Staged::alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) {
  const int ranks = group_.size();
  const std::size_t size = size_bytes(input.dtype), half = segment_elems(input.dtype) / 2;
  const PartsCut cut({ranks, input.count / std::uint64_t(ranks), {}}, ranks, half / std::size_t(ranks));
  const Options its{options.name, token_of(options.consistency_token, input.count, {})};
  const auto second = [&](std::size_t k) { return cut.whole(k) * size; };
  run_in_segments(
      {cut.segments(), [&](std::size_t k, EachPiece<const void*> each) { cut.all(input.data, size, k, each); },
       [&](std::size_t k, EachPiece<void*> each) {
         cut.all<void*>(output.data, size, k, [&](void* piece, std::size_t offset, std::size_t bytes) {
           each(piece, second(k) + offset, bytes);
         });
       },
       [&](std::byte* memory, std::size_t k) {
         group_.alltoall(ConstTensor(memory, cut.whole(k), input.dtype),
                         Tensor(memory + second(k), cut.whole(k), input.dtype), its);
       }},
      stream);
}

void Staged::alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                      const Options& options) {
  run_whole(input, output, stream,
            [&](ConstTensor in, Tensor out) { group_.alltoall(in, out, send_counts, recv_counts, options); });
}

// Transfers use halves of a segment, whether the call is send(), recv() or exchange(): received data goes into the
// second half. For no elements there is one message.
void Staged::transfer(const Outgoing& outgoing, const Incoming& incoming, GpuStream stream, const Options& options) {
  const ConstTensor sending = outgoing.tensor;
  const Tensor receiving = incoming.tensor;
  const auto cut_of = [&](const ConstTensor& tensor) {
    return PartsCut({1, tensor.count, {}}, 1, segment_elems(tensor.dtype) / 2);
  };
  const PartsCut out = cut_of(sending), in = cut_of(receiving);
  const std::size_t outs = outgoing.to == kNobody ? 0 : out.segments(),
                    ins = incoming.from == kNobody ? 0 : in.segments();
  const std::size_t out_size = size_bytes(sending.dtype), in_size = size_bytes(receiving.dtype);
  const std::size_t second = limits_.segment_bytes / 2;
  const auto options_of = [&](const ConstTensor& tensor) {
    return Options{options.name, token_of(options.consistency_token, tensor.count, {})};
  };
  Segmented tensors{std::max(outs, ins), nullptr, nullptr, [&](std::byte* memory, std::size_t k) {
                      Work arrives, sends;
                      try {
                        if (k < ins)
                          arrives = group_.recv_async(Tensor(memory + second, in.whole(k), receiving.dtype),
                                                      incoming.from, options_of(receiving));
                        if (k < outs)
                          sends = group_.send_async(ConstTensor(memory, out.whole(k), sending.dtype), outgoing.to,
                                                    options_of(sending));
                      } catch (...) {
                        wait_quietly(arrives);
                        throw;
                      }
                      wait_all(std::array{arrives, sends});
                    }};
  if (outs > 0)
    tensors.from = [&](std::size_t k, EachPiece<const void*> each) { out.all(sending.data, out_size, k, each); };
  if (ins > 0)
    tensors.to = [&](std::size_t k, EachPiece<void*> each) {
      in.all<void*>(receiving.data, in_size, k,
                    [&](void* piece, std::size_t offset, std::size_t bytes) { each(piece, second + offset, bytes); });
    };
  run_in_segments(tensors, stream);
}

void Staged::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  transfer({tensor, to}, {Tensor(nullptr, 0, tensor.dtype), kNobody}, stream, options);
}

void Staged::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  transfer({ConstTensor(nullptr, 0, tensor.dtype), kNobody}, {tensor, from}, stream, options);
}

void Staged::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                      const Options& options) {
  transfer({outgoing, to}, {incoming, from}, stream, options);
}

}  // namespace anello::gpu
