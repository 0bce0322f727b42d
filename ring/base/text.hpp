// text("rank ", 3, " of ", n): one string from parts. For messages, not for hot paths.
#pragma once
#include <sstream>
#include <string>

namespace anello {

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace anello
