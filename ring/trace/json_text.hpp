// JSON strings; everything else that is written here is numbers.
#pragma once
#include <string>
#include <string_view>

namespace anello::trace {

// In quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace anello::trace
