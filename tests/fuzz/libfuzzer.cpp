// One parser under libFuzzer (Clang): tests/fuzz.sh builds and runs them.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/parsers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  anello::fuzz::PARSER({reinterpret_cast<const char*>(data), size});
  return 0;
}
