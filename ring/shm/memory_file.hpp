// Memory that processes of one host share: a mapped anonymous file (memfd). The file has no name, so nothing remains
// after a crash. Its size is sealed before it is sent to a peer, because a peer that shrinks an unsealed file could
// kill this process with a bus error.
#pragma once
#include <cstddef>
#include <span>

#include "ring/base/descriptor.hpp"

namespace anello::shm {

class MemoryFile {
 public:
  // Makes a file with all its pages allocated. Throws Error{network}.
  static MemoryFile create(std::size_t bytes);
  // Maps a file that another process sent, without allocating pages. Throws Error{protocol} if the file is not sealed
  // or does not have this size. `colour` is less than kColours. Work at equal offsets of files with different colours
  // causes no cache conflicts. Files that this process made have colour 0.
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
  std::size_t mapped_bytes() const;               // size of the whole pages that contain the memory
  void populate() const;                          // causes all page faults now, before the memory is used
  int descriptor() const { return file_.get(); }  // for sending to a peer; only valid after create()
  void close_descriptor() { file_.close(); }      // the memory stays mapped

 private:
  MemoryFile(int file, std::size_t bytes, int flags, unsigned colour);

  Descriptor file_;
  std::span<std::byte> memory_;
};

}  // namespace anello::shm
