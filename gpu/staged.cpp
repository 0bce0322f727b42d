#include "gpu/staged.hpp"

#include <algorithm>
#include <anello/error.hpp>

#include "gpu/or_abort.hpp"
#include "ring/base/signature.hpp"

namespace anello::gpu {
namespace {

std::byte* at(void* memory, std::size_t bytes) {
  return static_cast<std::byte*>(memory) + bytes;
}
const std::byte* at(const void* memory, std::size_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

}  // namespace

Staged::Staged(Group group, const Device& device, const Limits& limits)
    : group_(std::move(group)),
      device_(device),
      limits_(limits),
      down_(make_stream(device)),
      up_(make_stream(device)),
      order_(make_event(device)) {
  for (Slot& slot : slots_)
    slot = {make_pinned(device, limits_.segment_bytes), make_event(device), make_event(device), {}};
}

// Memory that the device may still use is not given back: that would wait for it.
Staged::~Staged() {
  if (settle()) return;
  for (Slot& slot : slots_) slot.memory.leak();
  input_.leak();
  output_.leak();
}

// Nothing may be on its way through memory that is about to be used anew, or given back. False: something is.
bool Staged::settle() noexcept {
  for (Slot& slot : slots_) try {
      slot.work.wait();
    } catch (const Error&) {
      // whoever started it has been told
    }
  try {
    for (const Stream* stream : {&down_, &up_}) {
      record(device_, order_, stream->get());
      wait(device_, order_, limits_.copy.count() > 0 ? limits_.copy : kLastWait, "the end of what is on its way");
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What has gone wrong here must not be on its way any more when the caller has its memory back.
template <class Body>
void Staged::carry_out(Body body) {
  try {
    or_abort(group_, [&] {
      const DeviceGuard guard(device_);
      body();
    });
  } catch (...) {
    settle();
    throw;
  }
}

void Staged::begin(void* stream) {
  order(device_, order_, stream, down_.get());
  order(device_, order_, stream, up_.get());
}

void Staged::end(void* stream) {
  order(device_, order_, up_.get(), stream);
}

void Staged::download(Slot& slot, const void* from, std::size_t bytes) {
  follow(device_, down_.get(), slot.uploaded);
  copy(device_, slot.memory.get(), from, bytes, down_.get());
  record(device_, slot.downloaded, down_.get());
}

void Staged::upload(Slot& slot, void* to, std::size_t bytes) {
  copy(device_, to, slot.memory.get(), bytes, up_.get());
  record(device_, slot.uploaded, up_.get());
}

void Staged::pass(const Passage& passage, void* stream) {
  const std::size_t size = size_bytes(passage.dtype);
  const std::size_t most = std::max<std::size_t>(1, limits_.segment_bytes / size);
  const std::size_t segments = std::max<std::size_t>(1, (passage.count + most - 1) / most);
  const auto elems = [&](std::size_t k) { return std::min(most, passage.count - k * most); };
  begin(stream);
  // Three stages, each a segment behind the one before.
  for (std::size_t k = 0; k < segments + 2; k++) {
    if (k < segments && passage.from) download(slots_[k % kSlots], at(passage.from, k * most * size), elems(k) * size);
    if (k >= 1 && k <= segments) {
      Slot& slot = slots_[(k - 1) % kSlots];
      // The group writes to this memory: what was in it has to be on the device.
      if (passage.from)
        wait(device_, slot.downloaded, limits_.copy, "copying to the host");
      else
        wait(device_, slot.uploaded, limits_.copy, "copying from the host");
      slot.work = passage.start({slot.memory.get(), elems(k - 1), passage.dtype});
    }
    if (k >= 2) {
      Slot& slot = slots_[(k - 2) % kSlots];
      slot.work.wait();
      if (passage.to) upload(slot, at(passage.to, (k - 2) * most * size), elems(k - 2) * size);
    }
  }
  end(stream);
}

// A count that differs by whole segments must be no other rank's next operation.
std::uint64_t Staged::agreed(std::uint64_t number, std::size_t count) {
  return fingerprint(number, count);
}

void Staged::allreduce(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) {
  ReduceOptions of_segments = options;
  of_segments.consistency_token = agreed(options.consistency_token, input.count);
  carry_out([&] {
    pass({input.data, output.data, input.count, input.dtype,
          [&](Tensor segment) { return group_.allreduce_async(segment, op, of_segments); }},
         stream);
  });
}

void Staged::allreduce(std::span<const Tensor> list, void* stream, Op op, const ReduceOptions& options) {
  for (const Tensor& tensor : list) allreduce(tensor, tensor, stream, op, options);
}

void Staged::reduce(ConstTensor input, Tensor output, int root, void* stream, Op op, const ReduceOptions& options) {
  ReduceOptions of_segments = options;
  of_segments.consistency_token = agreed(options.consistency_token, input.count);
  carry_out([&] {
    pass({input.data, group_.rank() == root ? output.data : nullptr, input.count, input.dtype,
          [&](Tensor segment) { return group_.reduce_async(segment, root, op, of_segments); }},
         stream);
  });
}

void Staged::broadcast(std::span<const Tensor> list, int root, void* stream, const Options& options) {
  const bool is_root = group_.rank() == root;
  for (const Tensor& tensor : list) {
    const Options of_segments{options.name, agreed(options.consistency_token, tensor.count)};
    carry_out([&] {
      pass({is_root ? tensor.data : nullptr, is_root ? nullptr : tensor.data, tensor.count, tensor.dtype,
            [&](Tensor segment) { return group_.broadcast_async(segment, root, of_segments); }},
           stream);
    });
  }
}

// Whose parts lie where depends on their sizes, so that they go as one.
void Staged::whole(ConstTensor input, Tensor output, void* stream,
                   const std::function<void(ConstTensor, Tensor)>& call) {
  const auto at_least = [&](PinnedMemory& memory, std::size_t& room, std::size_t bytes) {
    if (bytes <= room) return;
    memory = make_pinned(device_, bytes);
    room = bytes;
  };
  carry_out([&] {
    at_least(input_, input_bytes_, input.bytes());
    at_least(output_, output_bytes_, output.bytes());
    begin(stream);
    if (input.count > 0) copy(device_, input_.get(), input.data, input.bytes(), down_.get());
    record(device_, order_, down_.get());
    wait(device_, order_, limits_.copy, "copying to the host");
    call({input_.get(), input.count, input.dtype}, {output_.get(), output.count, output.dtype});
    if (output.count > 0) copy(device_, output.data, output_.get(), output.bytes(), up_.get());
    end(stream);
    // The next call may want the memory for something else.
    record(device_, order_, up_.get());
    wait(device_, order_, limits_.copy, "copying from the host");
  });
}

void Staged::allgather(ConstTensor input, Tensor output, void* stream, const PartOptions& options) {
  whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.allgather(in, out, options); });
}

void Staged::gather(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) {
  if (group_.rank() != root) output = Tensor(nullptr, 0, input.dtype);
  whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.gather(in, out, root, options); });
}

void Staged::scatter(ConstTensor input, Tensor output, int root, void* stream, const PartOptions& options) {
  if (group_.rank() != root) input = ConstTensor(nullptr, 0, output.dtype);
  whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.scatter(in, out, root, options); });
}

void Staged::reduce_scatter(ConstTensor input, Tensor output, void* stream, Op op, const ReduceOptions& options) {
  whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.reduce_scatter(in, out, op, options); });
}

void Staged::alltoall(ConstTensor input, Tensor output, void* stream, const Options& options) {
  whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.alltoall(in, out, options); });
}

void Staged::alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, void* stream,
                      const Options& options) {
  whole(input, output, stream,
        [&](ConstTensor in, Tensor out) { group_.alltoall(in, out, send_counts, recv_counts, options); });
}

void Staged::send(ConstTensor tensor, int to, void* stream, const Options& options) {
  whole(tensor, Tensor(nullptr, 0, tensor.dtype), stream,
        [&](ConstTensor in, Tensor) { group_.send(in, to, options); });
}

void Staged::recv(Tensor tensor, int from, void* stream, const Options& options) {
  whole(ConstTensor(nullptr, 0, tensor.dtype), tensor, stream,
        [&](ConstTensor, Tensor out) { group_.recv(out, from, options); });
}

}  // namespace anello::gpu
