#include "gpu/staged.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <vector>

#include "gpu/or_abort.hpp"
#include "ring/base/signature.hpp"
#include "ring/group/group_impl.hpp"

namespace anello::gpu {
namespace {

std::byte* at(void* memory, std::size_t bytes) {
  return static_cast<std::byte*>(memory) + bytes;
}
const std::byte* at(const void* memory, std::size_t bytes) {
  return static_cast<const std::byte*>(memory) + bytes;
}

std::size_t count_of(std::span<const Tensor> list) {
  std::size_t count = 0;
  for (const Tensor& tensor : list) count += tensor.count;
  return count;
}

// All ranks must cut alike: without the counts, a rank whose tensors have more elements would take the others' next
// operation for its own.
std::uint64_t token_of(std::uint64_t token, std::span<const Tensor> list) {
  for (const Tensor& tensor : list) token = fingerprint(token, tensor.count);
  return token;
}

// Walks over the bytes of tensors as if they lay one behind the other.
template <class T>
class ListWalk {
 public:
  explicit ListWalk(std::span<const T> list) : list_(list) {}
  bool empty() const { return list_.empty(); }

  // Calls piece(memory, bytes) for each piece of the next bytes.
  template <class Piece>
  void next(std::size_t bytes, Piece piece) {
    while (bytes > 0) {
      const T& tensor = list_[tensor_];
      const std::size_t now = std::min(bytes, tensor.bytes() - done_);
      if (now > 0) piece(at(tensor.data, done_), now);
      bytes -= now;
      done_ += now;
      if (done_ < tensor.bytes()) continue;
      tensor_++;
      done_ = 0;
    }
  }

 private:
  std::span<const T> list_;
  std::size_t tensor_ = 0, done_ = 0;
};

}  // namespace

Staged::Staged(Group group, const Device& device, const Limits& limits)
    : group_(std::move(group)),
      device_(device),
      limits_(limits),
      down_(make_stream(device)),
      up_(make_stream(device)),
      order_(make_event(device)),
      output_free_(make_event(device)) {
  for (Slot& slot : slots_)
    slot = {make_pinned(device, limits_.segment_bytes), make_event(device), make_event(device), {}};
}

void Staged::give_up() {
  GroupAccess::end(group_, false);
}

// Memory that the device may still use is leaked: to free it could block forever.
Staged::~Staged() {
  if (drain()) return;
  for (Slot& slot : slots_) slot.memory.leak();
  input_.leak();
  output_.leak();
}

// Waits until neither the group nor the device uses the pinned memory, so that it can be reused or freed. False: the
// device still does.
bool Staged::drain() noexcept {
  for (Slot& slot : slots_) try {
      slot.work.wait();
    } catch (const Error&) {
      // the call that started it has thrown this error
    }
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

// On failure, waits for outstanding copies before it rethrows: the caller may free its tensors.
template <class Body>
void Staged::carry_out(GpuStream stream, Body body) {
  refuse_capture(device_, stream, "a call that goes through host memory");
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

template <class List>
void Staged::download(Slot& slot, List& from, std::size_t bytes) {
  follow(device_, down_.get(), slot.uploaded);
  std::byte* to = at(slot.memory.get(), 0);
  from.next(bytes, [&](const void* piece, std::size_t piece_bytes) {
    copy(device_, to, piece, piece_bytes, down_.get());
    to += piece_bytes;
  });
  record(device_, slot.downloaded, down_.get());
}

template <class List>
void Staged::upload(Slot& slot, List& to, std::size_t bytes) {
  const std::byte* from = at(slot.memory.get(), 0);
  to.next(bytes, [&](void* piece, std::size_t piece_bytes) {
    copy(device_, piece, from, piece_bytes, up_.get());
    from += piece_bytes;
  });
  record(device_, slot.uploaded, up_.get());
}

void Staged::run_in_segments(const Segmented& tensors, GpuStream stream) {
  const std::size_t size = size_bytes(tensors.dtype);
  const std::size_t max_elems = std::max<std::size_t>(1, limits_.segment_bytes / size);
  const std::size_t segments = std::max<std::size_t>(1, (tensors.count + max_elems - 1) / max_elems);
  const auto elems = [&](std::size_t k) { return std::min(max_elems, tensors.count - k * max_elems); };
  ListWalk from(tensors.from);
  ListWalk to(tensors.to);
  begin(stream);
  // Three stages; each works on the segment behind that of the stage before it.
  for (std::size_t k = 0; k < segments + 2; k++) {
    if (k < segments && !from.empty()) download(slots_[k % kSlots], from, elems(k) * size);
    if (k >= 1 && k <= segments) {
      Slot& slot = slots_[(k - 1) % kSlots];
      // The group writes to this memory: the upload of its previous contents must be done.
      if (!from.empty())
        wait(device_, slot.downloaded, limits_.copy, "copying to the host");
      else
        wait(device_, slot.uploaded, limits_.copy, "copying from the host");
      slot.work = tensors.start({slot.memory.get(), elems(k - 1), tensors.dtype});
    }
    if (k >= 2) {
      Slot& slot = slots_[(k - 2) % kSlots];
      slot.work.wait();
      if (!to.empty()) upload(slot, to, elems(k - 2) * size);
    }
  }
  end(stream);
}

void Staged::allreduce(std::span<const ConstTensor> from, std::span<const Tensor> to, GpuStream stream, Op op,
                       const ReduceOptions& options) {
  ReduceOptions segment_options = options;
  segment_options.consistency_token = token_of(options.consistency_token, to);
  carry_out(stream, [&] {
    run_in_segments({from, to, count_of(to), to[0].dtype,
                     [&](Tensor segment) { return group_.allreduce_async(segment, op, segment_options); }},
                    stream);
  });
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
  carry_out(stream, [&] {
    run_in_segments({std::span(&input, 1), to, input.count, input.dtype,
                     [&](Tensor segment) { return group_.reduce_async(segment, root, op, segment_options); }},
                    stream);
  });
}

void Staged::broadcast(std::span<const Tensor> list, int root, GpuStream stream, const Options& options) {
  if (list.empty()) return;
  const Options segment_options{options.name, token_of(options.consistency_token, list)};
  std::vector<ConstTensor> from;
  if (group_.rank() == root) from.assign(list.begin(), list.end());
  const auto to = group_.rank() == root ? std::span<const Tensor>() : list;
  carry_out(stream, [&] {
    run_in_segments({from, to, count_of(list), list[0].dtype,
                     [&](Tensor segment) { return group_.broadcast_async(segment, root, segment_options); }},
                    stream);
  });
}

// For collectives in which the place of an element depends on the sizes of the parts: they are not cut into segments.
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

void Staged::allgather(ConstTensor input, Tensor output, GpuStream stream, const PartOptions& options) {
  run_whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.allgather(in, out, options); });
}

void Staged::gather(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  if (group_.rank() != root) output = Tensor(nullptr, 0, input.dtype);
  run_whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.gather(in, out, root, options); });
}

void Staged::scatter(ConstTensor input, Tensor output, int root, GpuStream stream, const PartOptions& options) {
  if (group_.rank() != root) input = ConstTensor(nullptr, 0, output.dtype);
  run_whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.scatter(in, out, root, options); });
}

void Staged::reduce_scatter(ConstTensor input, Tensor output, GpuStream stream, Op op, const ReduceOptions& options) {
  run_whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.reduce_scatter(in, out, op, options); });
}

void Staged::alltoall(ConstTensor input, Tensor output, GpuStream stream, const Options& options) {
  run_whole(input, output, stream, [&](ConstTensor in, Tensor out) { group_.alltoall(in, out, options); });
}

void Staged::alltoall(ConstTensor input, Tensor output, Counts send_counts, Counts recv_counts, GpuStream stream,
                      const Options& options) {
  run_whole(input, output, stream,
            [&](ConstTensor in, Tensor out) { group_.alltoall(in, out, send_counts, recv_counts, options); });
}

void Staged::send(ConstTensor tensor, int to, GpuStream stream, const Options& options) {
  run_whole(tensor, Tensor(nullptr, 0, tensor.dtype), stream,
            [&](ConstTensor in, Tensor) { group_.send(in, to, options); });
}

void Staged::recv(Tensor tensor, int from, GpuStream stream, const Options& options) {
  run_whole(ConstTensor(nullptr, 0, tensor.dtype), tensor, stream,
            [&](ConstTensor, Tensor out) { group_.recv(out, from, options); });
}

void Staged::exchange(ConstTensor outgoing, int to, Tensor incoming, int from, GpuStream stream,
                      const Options& options) {
  run_whole(outgoing, incoming, stream, [&](ConstTensor in, Tensor out) {
    Work receiving = group_.recv_async(out, from, options);
    group_.send(in, to, options);
    receiving.wait();
  });
}

}  // namespace anello::gpu
