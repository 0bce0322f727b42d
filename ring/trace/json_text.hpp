// Makes strings for JSON. The library writes other JSON values only as numbers.
#pragma once
#include <string>
#include <string_view>

namespace anello::trace {

// Returns the text in quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace anello::trace
