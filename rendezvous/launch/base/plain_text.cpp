#include "rendezvous/launch/base/plain_text.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <cstdint>
#include <cstdio>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

struct Range {
  std::uint32_t first, last;
  const char* name;
};
constexpr Range kLookAlikes[] = {{0x00a0, 0x00a0, "a space that does not break a line"},
                                 {0x00ad, 0x00ad, "an invisible hyphen"},
                                 {0x2000, 0x200a, "a wide or narrow space"},
                                 {0x200b, 0x200f, "an invisible character"},
                                 {0x2010, 0x2015, "a hyphen or dash that is not on the keyboard"},
                                 {0x2018, 0x201f, "a typographic quote"},
                                 {0x2028, 0x202f, "an invisible character or a space"},
                                 {0x2060, 0x206f, "an invisible character"},
                                 {0x2212, 0x2212, "a minus sign that is not on the keyboard"},
                                 {0x3000, 0x3000, "a wide space"},
                                 {0xfeff, 0xfeff, "an invisible byte order mark"},
                                 {0xff01, 0xff5e, "a wide character"}};

std::string in_hexadecimal(const char* format, std::uint32_t number) {
  char out[16];
  std::snprintf(out, sizeof out, format, unsigned(number));
  return out;
}

// Returns the code point at the beginning of `bytes`; 0 if the bytes are not UTF-8.
std::uint32_t first_code_point(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t count = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (count == 0 || bytes.size() < count) return 0;
  std::uint32_t out = lead & (0x7fu >> count);
  for (std::size_t i = 1; i < count; i++) {
    const auto next = static_cast<unsigned char>(bytes[i]);
    if ((next & 0xc0) != 0x80) return 0;
    out = out << 6 | (next & 0x3f);
  }
  return out;
}

}  // namespace

std::string plain_text(const std::string& path, std::string content) {
  if (content.starts_with("\xff\xfe") || content.starts_with("\xfe\xff") || content.find('\0') != std::string::npos)
    throw Error(ErrorCode::configuration,
                text(path, ": it is UTF-16 or binary, not text in UTF-8 or ASCII; ", "save it as UTF-8"));
  if (content.starts_with(kByteOrderMark)) content.erase(0, kByteOrderMark.size());
  for (std::size_t at = 0; (at = content.find('\r', at)) != std::string::npos; at++) {
    if (at + 1 < content.size() && content[at + 1] == '\n')
      content.erase(at, 1);
    else
      content[at] = '\n';
  }
  return content;
}

std::string first_unusual_character(std::string_view text) {
  const auto at = std::ranges::find_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (at == text.end()) return {};
  const std::uint32_t code = first_code_point({at, text.end()});
  if (code == 0) return in_hexadecimal("the byte 0x%02x", static_cast<unsigned char>(*at)) + ", which is not UTF-8";
  const auto known =
      std::ranges::find_if(kLookAlikes, [&](const Range& range) { return code >= range.first && code <= range.last; });
  const std::string number = in_hexadecimal("U+%04X", code);
  return known == std::end(kLookAlikes) ? number : anello::text(number, " (", known->name, ")");
}

}  // namespace anello::launch
