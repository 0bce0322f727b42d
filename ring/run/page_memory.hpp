// Memory in whole pages. All pages are mapped in advance, so that no page faults occur during a collective.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace anello::run {

class PageMemory {
 public:
  std::byte* get() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

  // Makes the memory at least this large. If the memory grows, its content is lost. Throws std::bad_alloc; then the
  // memory is empty.
  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    memory_.reset();
    bytes_ = 0;
    const std::size_t rounded = (bytes + kPage - 1) / kPage * kPage;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, rounded));
    if (!memory) throw std::bad_alloc();
    memory_.reset(memory);
    std::memset(memory, 0, rounded);
    bytes_ = bytes;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };

  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace anello::run
