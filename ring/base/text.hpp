// text("rank ", 3, " of ", n) makes one string from parts. For error messages and log lines, not for hot paths.
#pragma once
#include <array>
#include <charconv>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

namespace anello {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  if (!out) throw std::bad_alloc();  // without memory, a stream only stops, and the text would be cut
  return std::move(out).str();
}

// Returns the fewest digits that identify this number.
inline std::string exact(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

// Makes text from outside safe to show: cuts it to `max_bytes`, and replaces control characters, which could control a
// terminal.
inline std::string printable(std::string_view from, std::size_t max_bytes = 1000) {
  std::string out(from.substr(0, max_bytes));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

}  // namespace anello
