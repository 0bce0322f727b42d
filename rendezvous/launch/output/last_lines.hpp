// The last lines of a stream, to be shown again at the end of a job. Keeps at most 10 lines of at most 1,000 bytes.
// Keeps only the beginning of a longer line. If a line has carriage returns (a progress bar), keeps only the part after
// the last of them. Pure.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

class LastLines {
 public:
  static constexpr std::size_t kMaxLines = 10, kMaxLineBytes = 1000;
  void feed(std::string_view bytes);
  std::vector<std::string> lines() const;  // oldest first; includes a last line that has not ended

 private:
  void append(std::string_view bytes);

  std::deque<std::string> lines_ = {""};  // the last one has not ended
};

}  // namespace anello::launch
