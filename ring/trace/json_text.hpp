// The little of JSON that is written here: strings. What else there is, is numbers.
#pragma once
#include <string>
#include <string_view>

namespace anello {

// In quotes. What is no UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);

}  // namespace anello
