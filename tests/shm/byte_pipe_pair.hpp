// Both ends of a pipe in one process.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "ring/shm/byte_pipe.hpp"

namespace anello::shm {

inline constexpr std::size_t kCapacity = 192;
inline constexpr std::size_t kSlotted = 120;  // write() uses a slot up to this size, unless a test sets another limit

struct BytePipe {
  explicit BytePipe(std::size_t capacity = kCapacity) : memory(capacity) {}
  std::unique_ptr<PipeState> state = std::make_unique<PipeState>();
  std::vector<std::byte> memory;
  PipeWriter writer{*state, memory};
  PipeReader reader{*state, memory};
  std::size_t slotted = kSlotted;

  // Uses a slot, if the whole data may be sent and are short enough.
  std::size_t write(ConstBytes data, std::size_t most) {
    const std::size_t written = data.size() <= std::min(most, slotted) ? writer.fill_slot(std::array{data}) : 0;
    return written > 0 ? written : writer.write(data, most);
  }
  std::size_t write(std::size_t bytes, std::size_t most = 1000) {
    const std::size_t written = write(std::vector<std::byte>(bytes, std::byte{7}), most);
    if (written > 0) writer.publish();
    return written;
  }
  std::size_t read() {
    const std::size_t bytes = reader.peek().size();
    reader.consume(bytes);
    return bytes;
  }
};

}  // namespace anello::shm
