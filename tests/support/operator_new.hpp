// Replaces all forms of operator new and delete in a program: a test includes this in one source file, and defines
// before_allocation() there. All forms must be here, because memory from a sanitizer's operator new must not reach the
// free() of this file.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

// Called before each allocation of `bytes` bytes, on the thread that allocates. Its exceptions leave operator new.
void before_allocation(std::size_t bytes);

namespace anello::testing {

inline void* allocated(std::size_t bytes, std::align_val_t alignment) {
  before_allocation(bytes);
  const std::size_t unit = std::size_t(alignment), least = std::max(bytes, std::size_t(1));
  const bool is_usual = unit <= alignof(std::max_align_t);
  void* const memory = is_usual ? std::malloc(least) : std::aligned_alloc(unit, (least + unit - 1) / unit * unit);
  if (memory) return memory;
  throw std::bad_alloc();
}

inline void* allocated_or_null(std::size_t bytes, std::align_val_t alignment) noexcept {
  try {
    return allocated(bytes, alignment);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace anello::testing

#define ANELLO_REPLACE_OPERATORS(form)                                                                     \
  void* operator new form(std::size_t bytes) {                                                             \
    return anello::testing::allocated(bytes, std::align_val_t(alignof(std::max_align_t)));                 \
  }                                                                                                        \
  void* operator new form(std::size_t bytes, const std::nothrow_t&) noexcept {                             \
    return anello::testing::allocated_or_null(bytes, std::align_val_t(alignof(std::max_align_t)));         \
  }                                                                                                        \
  void* operator new form(std::size_t bytes, std::align_val_t alignment) {                                 \
    return anello::testing::allocated(bytes, alignment);                                                   \
  }                                                                                                        \
  void* operator new form(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept { \
    return anello::testing::allocated_or_null(bytes, alignment);                                           \
  }                                                                                                        \
  void operator delete form(void* memory) noexcept {                                                       \
    std::free(memory);                                                                                     \
  }                                                                                                        \
  void operator delete form(void* memory, std::size_t) noexcept {                                          \
    std::free(memory);                                                                                     \
  }                                                                                                        \
  void operator delete form(void* memory, const std::nothrow_t&) noexcept {                                \
    std::free(memory);                                                                                     \
  }                                                                                                        \
  void operator delete form(void* memory, std::align_val_t) noexcept {                                     \
    std::free(memory);                                                                                     \
  }                                                                                                        \
  void operator delete form(void* memory, std::size_t, std::align_val_t) noexcept {                        \
    std::free(memory);                                                                                     \
  }                                                                                                        \
  void operator delete form(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {              \
    std::free(memory);                                                                                     \
  }

ANELLO_REPLACE_OPERATORS()
ANELLO_REPLACE_OPERATORS([])
#undef ANELLO_REPLACE_OPERATORS
