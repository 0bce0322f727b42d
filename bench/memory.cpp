#include "bench/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::uint64_t kib = 0;
  for (std::string word; file >> word;)
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

Memory::Memory(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  const std::uint64_t available = available_bytes();
  void* memory = MAP_FAILED;
  if (bytes_ <= available) memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(Code::configuration, text("a buffer of ", bytes_, " bytes does not fit the memory of this host (",
                                          available, " bytes are available); give a smaller -e"));
  data_ = static_cast<std::byte*>(memory);
  std::memset(data_, 0, bytes_);
}

Memory::~Memory() {
  munmap(data_, bytes_);
}

}  // namespace anello::bench
