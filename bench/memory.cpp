#include "bench/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cstdint>
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

void refuse_if_short(std::size_t bytes) {
  if (const std::uint64_t available = available_bytes(); bytes > available)
    throw Error(ErrorCode::configuration, text("a buffer of ", bytes, " bytes does not fit the memory of this host (",
                                               available, " bytes are available); give a smaller -e"));
}

Memory pages(std::size_t bytes) {
  bytes = std::max<std::size_t>(bytes, 1);
  refuse_if_short(bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw Error(ErrorCode::configuration, text("no memory for a buffer of ", bytes, " bytes"));
  return {static_cast<std::byte*>(memory), [bytes](std::byte* data) { munmap(data, bytes); }};
}

}  // namespace anello::bench
