// Memory for tensors that other ranks of the same host can read and write directly. A collective on such tensors needs
// no copy through shared buffers. It works directly on the tensors if there are at most 8 ranks and all of them give
// such tensors. The smallest size is 2 KiB for allreduce, allgather and reduce_scatter (8 KiB with 5 ranks or more).
// For broadcast and reduce it is 8 KiB with 2 ranks, 64 KiB with 3 or 4, and 128 KiB with more. In such a collective no
// rank returns before all ranks have done their parts.
//
// All operations also work on other memory. A rank may be stopped while it is writing to another rank's memory. If the
// operation then fails, the stopped rank may still write 64 KiB when it continues. The owner of the memory logs this as
// a warning, and should then allocate new memory.
//
// After fork() parent and child share this memory. The child does not get a copy, so each process sees the other's
// writes. If the child frees the memory, for example by a container's destructor, the parent still has it.
//
//   std::vector<float, anello::Allocator<float>> gradients(parameters);
#pragma once
#include <anello/export.h>
#include <cstddef>

ANELLO_API_BEGIN
namespace anello {

// Returns at least `bytes` bytes of zeroed memory, in whole pages. Other ranks' processes map the memory when a
// collective first uses it. Allocating and mapping take time, so allocate once, not in every step. Throws
// Error{unsupported} if there is not enough memory. Any thread.
[[nodiscard]] void* allocate(std::size_t bytes);

// Frees memory from allocate(); does nothing for null. No operation should be using the memory. If an operation still
// uses it, because an exception left the scope of its tensor, other ranks get the tensor's old contents, or an Error.
// Any thread.
void deallocate(void* memory) noexcept;

// An allocator for containers that uses the two functions above.
template <class T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) {}
  [[nodiscard]] T* allocate(std::size_t count) { return static_cast<T*>(anello::allocate(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { anello::deallocate(memory); }
  friend bool operator==(Allocator, Allocator) { return true; }
};

}  // namespace anello
ANELLO_API_END
