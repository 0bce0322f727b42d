// Memory for tensors that the ranks of one host read where it lies: a collective on tensors in it copies nothing into
// memory shared for the purpose. Worth it for large tensors, 64 KiB and more; everything works without it.
//
//   std::vector<float, anello::Allocator<float>> gradients(parameters);
#pragma once
#include <anello/export.h>
#include <cstddef>

ANELLO_API_BEGIN
namespace anello {

// Zeroed pages of `bytes` in all, or more, that other processes map when a collective first uses them there. Takes
// time, so not for every step. Throws Error{unsupported} if there is not as much. Any thread.
void* allocate(std::size_t bytes);

// Gives back what allocate() gave, or nothing for null. No call may be using it. Any thread.
void deallocate(void* memory) noexcept;

// For containers.
template <class T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(anello::allocate(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { anello::deallocate(memory); }
  friend bool operator==(Allocator, Allocator) { return true; }
};

}  // namespace anello
ANELLO_API_END
