#include "gpu/pack_buffer.hpp"

#include <anello/error.hpp>
#include <vector>

#include "ring/base/text.hpp"

namespace anello::gpu {
namespace {

constexpr std::size_t kAligned = 8;  // elements of 16 bits: each tensor begins at a multiple of 16 bytes
std::size_t rounded_up(std::size_t count) {
  return (count + kAligned - 1) / kAligned * kAligned;
}

}  // namespace

PackBuffer::PackBuffer(const Device& device, const AnelloKernelTable& kernels)
    : device_(device), kernels_(&kernels), free_(make_event(device)) {}

PackBuffer::~PackBuffer() {
  try {
    const DeviceGuard guard(device_);
    wait(device_, free_, kLastWait, "the last use of the pack buffer");
  } catch (const Error&) {
    memory_.leak();  // the device may still use it
  }
}

void PackBuffer::cast(std::span<const AnelloPart> parts, DType from, DType to, double factor, GpuStream stream) {
  const int status = kernels_->cast(parts.data(), parts.size(), int(from), int(to), factor, stream);
  if (status != 0)
    throw Error(ErrorCode::device, text("GPU ", int(device_.id), ", stream ", stream, ": casting ", name(from), " to ",
                                        name(to), ": ", kernels_->describe(status)));
}

PackBuffer::Packed PackBuffer::pack(std::span<const ConstTensor> list, DType as, double factor, GpuStream stream) {
  const DeviceGuard guard(device_);
  refuse_capture(device_, stream, "a call that packs its tensors (for 16 bits, or a factor)");
  std::size_t count = 0;
  for (const ConstTensor& tensor : list) count += rounded_up(tensor.count);
  if (const std::size_t bytes = count * size_bytes(as); bytes > memory_bytes_) {
    wait(device_, free_, std::chrono::milliseconds(0), "the last use of the pack buffer");
    memory_ = make_memory(device_, bytes);
    memory_bytes_ = bytes;
  }
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
