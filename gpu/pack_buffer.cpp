#include "gpu/pack_buffer.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "ring/base/text.hpp"

namespace anello::gpu {
namespace {

// Each tensor begins at a multiple of this number of elements; elements have 16 bits, so these are 16 bytes.
constexpr std::size_t kAligned = 8;
std::size_t rounded_up(std::size_t count) {
  return (count + kAligned - 1) / kAligned * kAligned;
}

constexpr std::size_t kMostHeld = 4;  // maximum memory that is held, in multiples of the size of the list

}  // namespace

PackBuffer::PackBuffer(const Device& device, const AnelloKernelTable& kernels)
    : device_(device), kernels_(&kernels), free_(make_event(device)) {}

PackBuffer::~PackBuffer() {
  try {
    const DeviceGuard guard(device_);
    wait(device_, free_, kLastWait, "the last use of the pack buffer");
  } catch (const Error&) {
    memory_.leak();  // the device may still use this memory
    for (DeviceMemory& memory : outgrown_) memory.leak();
  }
}

void PackBuffer::cast(std::span<const AnelloPart> parts, DType from, DType to, double factor, GpuStream stream) {
  const int status = kernels_->cast(parts.data(), parts.size(), int(from), int(to), factor, stream);
  if (status != 0)
    throw Error(ErrorCode::device, text("GPU ", int(device_.id), ", stream ", stream, ": casting ", name(from), " to ",
                                        name(to), ": ", kernels_->describe(status)));
}

void PackBuffer::grow_to(std::size_t bytes) {
  outgrown_.reserve(outgrown_.size() + 1);
  outgrown_.push_back(std::exchange(memory_, make_memory(device_, bytes)));
  memory_bytes_ = bytes;
  held_bytes_ += bytes;
}

// Freeing memory waits for all work on the device, and so for other ranks. So memory is freed only if the device has no
// room, or if too much would be kept. If each new memory is at least twice as large as the previous one, all memories
// together are less than four times as large as the list.
void PackBuffer::reserve(std::size_t bytes) {
  if (bytes <= memory_bytes_) return;
  for (const std::size_t larger : {std::max(bytes, 2 * memory_bytes_), bytes}) {
    if (held_bytes_ + larger > kMostHeld * bytes) continue;
    try {
      return grow_to(larger);
    } catch (const Error&) {
      // There may be room for less memory, or for this memory after the present memory is freed.
    }
  }
  wait(device_, free_, std::chrono::milliseconds(0), "the last use of the pack buffer");
  outgrown_.clear();
  memory_ = DeviceMemory();
  memory_bytes_ = held_bytes_ = 0;
  grow_to(bytes);
}

PackBuffer::Packed PackBuffer::pack(std::span<const ConstTensor> list, DType as, double factor, GpuStream stream) {
  const DeviceGuard guard(device_);
  refuse_capture(device_, stream, "a call that packs its tensors (for 16 bits, or a factor)");
  std::size_t count = 0;
  for (const ConstTensor& tensor : list) count += rounded_up(tensor.count);
  reserve(count * size_bytes(as));
  follow(device_, stream, free_);
  std::vector<AnelloPart> parts;
  Packed packed{{memory_.get(), count, as}, {}};
  auto* to = static_cast<std::byte*>(memory_.get());
  for (const ConstTensor& tensor : list) {
    packed.parts.push_back(to);
    if (tensor.count > 0) parts.push_back({tensor.data, to, tensor.count});
    to += rounded_up(tensor.count) * size_bytes(as);
  }
  if (!parts.empty()) cast(parts, list[0].dtype, as, factor, stream);
  return packed;
}

void PackBuffer::unpack(std::span<const Tensor> list, DType as, double factor, GpuStream stream) {
  const DeviceGuard guard(device_);
  std::vector<AnelloPart> parts;
  const auto* from = static_cast<const std::byte*>(memory_.get());
  for (const Tensor& tensor : list) {
    if (tensor.count > 0) parts.push_back({from, tensor.data, tensor.count});
    from += rounded_up(tensor.count) * size_bytes(as);
  }
  if (!parts.empty()) cast(parts, as, list[0].dtype, factor, stream);
  release(stream);
}

void PackBuffer::release(GpuStream stream) {
  const DeviceGuard guard(device_);
  record(device_, free_, stream);
}

void PackBuffer::scale(std::span<const Tensor> list, double factor, GpuStream stream) {
  scale(std::vector<ConstTensor>(list.begin(), list.end()), list, factor, stream);
}

void PackBuffer::scale(std::span<const ConstTensor> from, std::span<const Tensor> to, double factor, GpuStream stream) {
  const DeviceGuard guard(device_);
  std::vector<AnelloPart> parts;
  for (std::size_t i = 0; i < to.size(); i++)
    if (to[i].count > 0) parts.push_back({from[i].data, to[i].data, to[i].count});
  if (!parts.empty()) cast(parts, to[0].dtype, to[0].dtype, factor, stream);
}

}  // namespace anello::gpu
