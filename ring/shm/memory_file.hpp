// Memory that processes of one host share: an anonymous file (memfd), mapped. It has no name, so a crash leaves nothing
// behind. Its size is sealed before it is sent to a peer: a peer that shrank it could kill this process with a bus
// error.
#pragma once
#include <cstddef>
#include <span>

#include "ring/base/descriptor.hpp"

namespace anello::shm {

class MemoryFile {
 public:
  // Has all its pages. Throws Error{network}.
  static MemoryFile create(std::size_t bytes);
  // Maps a file that another process sent, which takes no pages. Throws Error{protocol} if it is not sealed or does not
  // have that size.
  // Files of different colours, kColours at most, can be worked on at the same offsets without conflicts in the cache;
  // those that this process made have colour 0.
  static MemoryFile adopt(Descriptor file, std::size_t bytes, unsigned colour = 0);
  static constexpr unsigned kColours = 16;

  MemoryFile(MemoryFile&& other) noexcept : file_(std::move(other.file_)), memory_(std::exchange(other.memory_, {})) {}
  MemoryFile& operator=(MemoryFile&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~MemoryFile();

  std::span<std::byte> memory() const { return memory_; }
  std::size_t mapped_bytes() const;               // of the whole pages in which the memory lies
  void populate() const;                          // page faults happen here, and not where the memory is used
  int descriptor() const { return file_.get(); }  // to be sent to a peer; valid after create() only
  void close_descriptor() { file_.close(); }      // the memory stays mapped

 private:
  MemoryFile(int file, std::size_t bytes, int flags, unsigned colour);

  Descriptor file_;
  std::span<std::byte> memory_;
};

}  // namespace anello::shm
