// Pages straight from the system, all touched: what a benchmark works on. Owned by one thread.
#pragma once
#include <cstddef>

namespace anello::bench {

class Memory {
 public:
  explicit Memory(std::size_t bytes);  // Throws Error{configuration} if there is not as much.
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

}  // namespace anello::bench
