#include "ring/trace/json_text.hpp"

#include <array>
#include <cstddef>

namespace anello::trace {
namespace {

// Returns the length of the well-formed UTF-8 character at the beginning; 0 if the text does not begin with one (RFC
// 3629, section 4).
std::size_t utf8_bytes(std::string_view text) {
  const auto at = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const auto follows = [&](std::size_t k) { return (at(k) & 0xc0) == 0x80; };
  const unsigned first = at(0), second = at(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && second < 0xa0, surrogate = first == 0xed && second > 0x9f;
    return !overlong && !surrogate && follows(1) && follows(2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && second < 0x90, beyond = first == 0xf4 && second > 0x8f;
    return !overlong && !beyond && follows(1) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string json_text(std::string_view text) {
  constexpr std::array<char, 17> kHex{"0123456789abcdef"};
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (bytes == 0)
      out += "\xef\xbf\xbd";
    else if (c == '"' || c == '\\')
      (out += '\\') += text.front();
    else if (c < 0x20)
      ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out + '"';
}

}  // namespace anello::trace
