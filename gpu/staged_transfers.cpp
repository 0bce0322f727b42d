// Transfers between two ranks through pinned host memory.
#include <algorithm>
#include <anello/error.hpp>
#include <array>

#include "gpu/staged.hpp"
#include "ring/base/signature.hpp"

namespace anello::gpu {
namespace {

// Waits for `work`, because the work uses the memory until it is done. Ignores the work's error, because another error
// has already been thrown.
void wait_quietly(const Work& work) noexcept {
  try {
    work.wait();
  } catch (const Error&) {
  }
}

}  // namespace

// Every transfer uses half a segment, whether the call is send(), recv() or exchange(): received data goes into the
// second half. A transfer without elements is one message.
void Staged::exchange(const ConstTensor& outgoing, int to, const Tensor& incoming, int from, GpuStream stream,
                      const Options& options) {
  const auto cut_of = [&](const ConstTensor& tensor) {
    return PartsCut({1, tensor.count, {}}, 1, segment_elems(tensor.dtype) / 2);
  };
  const PartsCut out = cut_of(outgoing), in = cut_of(incoming);
  const std::size_t outs = to == kNobody ? 0 : out.segments(), ins = from == kNobody ? 0 : in.segments();
  const std::size_t out_size = size_bytes(outgoing.dtype), in_size = size_bytes(incoming.dtype);
  const std::size_t second = limits_.segment_bytes / 2;
  const auto options_of = [&](const ConstTensor& tensor) {
    return Options{options.name, fingerprint(options.consistency_token, tensor.count)};
  };
  Segmented tensors{
      std::max(outs, ins), nullptr, nullptr, [&](std::byte* memory, std::size_t k) {
        Work arrives, sends;
        try {
          if (k < ins)
            arrives =
                group_.recv_async(Tensor(memory + second, in.whole(k), incoming.dtype), from, options_of(incoming));
          if (k < outs)
            sends = group_.send_async(ConstTensor(memory, out.whole(k), outgoing.dtype), to, options_of(outgoing));
        } catch (...) {
          wait_quietly(arrives);
          throw;
        }
        wait_all(std::array{arrives, sends});
      }};
  if (outs > 0)
    tensors.from = [&](std::size_t k, EachPiece<const void*> each) { out.all(outgoing.data, out_size, k, each); };
  if (ins > 0)
    tensors.to = [&](std::size_t k, EachPiece<void*> each) {
      in.all<void*>(incoming.data, in_size, k,
                    [&](void* piece, std::size_t offset, std::size_t bytes) { each(piece, second + offset, bytes); });
    };
  run_in_segments(tensors, stream);
}

}  // namespace anello::gpu
