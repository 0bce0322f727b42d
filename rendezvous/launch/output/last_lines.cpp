#include "rendezvous/launch/output/last_lines.hpp"

#include "rendezvous/launch/output/mixer.hpp"

namespace anello::launch {

void LastLines::feed(std::string_view bytes) {
  for (std::size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
    append(bytes.substr(0, end));
    lines_.emplace_back();
    if (lines_.size() > kMaxLines + 1) lines_.pop_front();
  }
  append(bytes);
}

void LastLines::append(std::string_view bytes) {
  std::string& line = lines_.back();
  line.append(bytes);
  line.erase(0, line.size() - visible_part(line).size());
  if (line.size() > kMaxLineBytes) line.resize(kMaxLineBytes);
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> out(lines_.begin(), lines_.end());
  if (out.back().empty()) out.pop_back();
  if (out.size() > kMaxLines) out.erase(out.begin());
  for (std::string& line : out)
    if (line.ends_with('\r')) line.pop_back();
  return out;
}

}  // namespace anello::launch
