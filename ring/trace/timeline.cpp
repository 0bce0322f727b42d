#include "ring/trace/timeline.hpp"

#include <utility>

namespace anello::trace {

void Timeline::start() {
  const MutexLock lock(mutex_);
  recording_ = {};
  active_ = true;
}

Recording Timeline::stop() {
  const MutexLock lock(mutex_);
  active_ = false;
  return std::exchange(recording_, {});
}

bool Timeline::has_room(std::size_t spans) {
  const std::size_t held = recording_.spans.size() + recording_.operations.size() + recording_.phases.size();
  if (held + spans < kMaxSpans) return true;
  recording_.left_out++;
  return false;
}

void Timeline::add(const Record& operation, const std::string& group, const std::vector<int>& members,
                   const std::vector<Span>& spans) {
  const MutexLock lock(mutex_);
  if (!active_ || !has_room(spans.size())) return;
  recording_.groups.try_emplace(operation.signature.group, Recording::Group{group, members});
  recording_.operations.push_back({operation, recording_.spans.size(), spans.size()});
  recording_.spans.insert(recording_.spans.end(), spans.begin(), spans.end());
}

void Timeline::add(std::string_view phase, Ticks begin, Ticks end) {
  const MutexLock lock(mutex_);
  if (!active_ || !has_room(0)) return;
  recording_.phases.push_back({std::string(phase), std::this_thread::get_id(), begin, end});
}

}  // namespace anello::trace
