// Floats that travel as others than they are: of 16 bits, or multiplied by a factor. They are packed behind each other
// on the device and unpacked into their places. One thread; what uses the room on one stream waits for what used it on
// another.
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

  // What was packed: all of it, in which there is room between the parts that holds anything, and each by itself.
  struct Packed {
    Tensor all;
    std::vector<const void*> parts;
  };

  // These queue what they do; throw Error{device}. What is packed lies there until it is unpacked, into tensors of the
  // same counts, or released.
  Packed pack(std::span<const ConstTensor> list, DType as, double factor, void* stream);
  void unpack(std::span<const Tensor> list, DType as, double factor, void* stream);
  void release(void* stream);
  // In place.
  void scale(std::span<const Tensor> list, double factor, void* stream);

 private:
  void cast(std::span<const AnelloPart> parts, DType from, DType to, double factor, void* stream);

  Device device_;
  const AnelloKernelTable* kernels_;
  DeviceMemory room_;
  std::size_t room_bytes_ = 0;
  Event free_;  // what was packed has been unpacked
};

}  // namespace anello::gpu
