// Device memory into which tensors of floats are packed contiguously, in another type or multiplied by a factor, and
// from which they are unpacked. The memory grows with the largest list. Memory that became too small is kept: in all at
// most four times the largest list, and less if the device has no room. One thread. If another stream uses the memory
// next, it waits for the previous stream.
#pragma once
#include <anello/tensor.hpp>
#include <span>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/kernels/kernel_table.h"

namespace anello::gpu {

class PackBuffer {
 public:
  PackBuffer(const Device& device, const AnelloKernelTable& kernels);
  ~PackBuffer();
  PackBuffer(const PackBuffer&) = delete;
  PackBuffer& operator=(const PackBuffer&) = delete;

  // The packed tensors as one tensor (with undefined elements between the parts), and the position at which each part
  // begins.
  struct Packed {
    Tensor all;
    std::vector<const void*> parts;
  };

  // These functions queue work on the stream and throw Error{device}. They do not wait for the device, with one
  // exception: if pack() finds no room, it waits for the last use of the memory and for other work on the device.
  // Packed data is valid until release(), or until unpack() into tensors with the same counts.
  Packed pack(std::span<const ConstTensor> list, DType as, double factor, GpuStream stream);
  void unpack(std::span<const Tensor> list, DType as, double factor, GpuStream stream);
  void release(GpuStream stream);
  // Multiplies each tensor in place, or into another tensor of the same size.
  void scale(std::span<const Tensor> list, double factor, GpuStream stream);
  void scale(std::span<const ConstTensor> from, std::span<const Tensor> to, double factor, GpuStream stream);

 private:
  void reserve(std::size_t bytes);
  void grow_to(std::size_t bytes);
  void cast(std::span<const AnelloPart> parts, DType from, DType to, double factor, GpuStream stream);

  Device device_;
  const AnelloKernelTable* kernels_;
  DeviceMemory memory_;
  std::size_t memory_bytes_ = 0, held_bytes_ = 0;  // held_bytes_ includes memory that became too small
  std::vector<DeviceMemory> outgrown_;
  Event free_;  // done when the last user of the memory has ended
};

}  // namespace anello::gpu
