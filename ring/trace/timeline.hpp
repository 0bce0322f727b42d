// Records the activity of a rank while its timeline is on: operations, their steps, and the program's own phases. Any
// thread. Takes no memory while the timeline is off.
#pragma once
#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ring/base/mutex.hpp"
#include "ring/trace/record.hpp"

namespace anello::trace {

// One uninterrupted activity of an operation.
struct Span {
  enum class What : std::uint8_t { send, receive, reduce, fold, scale, sleep };
  Ticks begin = 0, end = 0;
  std::uint64_t bytes = 0;  // bytes as sent; for local work, bytes in memory
  std::int32_t peer = -1;   // world rank; -1: none
  std::uint32_t round = 0;  // number of the step in the plan's program
  What what = What::send;
};

// The contents of a timeline at the time when it was stopped.
struct Recording {
  struct Operation {
    Record record;
    std::size_t first_span = 0, spans = 0;
  };
  struct Phase {
    std::string name;
    std::thread::id thread;
    Ticks begin = 0, end = 0;
  };
  struct Group {
    std::string name;
    std::vector<int> members;
  };
  std::vector<Operation> operations;  // ordered by the operations' ends
  std::vector<Span> spans;
  std::vector<Phase> phases;
  std::map<std::uint64_t, Group> groups;
  std::uint64_t left_out = 0;  // number of operations and phases that did not fit
};

class Timeline {
 public:
  static constexpr std::size_t kMaxSpans = 1 << 20;  // 40 MiB; later spans are left out

  bool active() const { return active_.load(std::memory_order_relaxed); }
  void start();
  Recording stop();

  // These functions have no effect if the timeline is no longer active.
  void add(const Record& operation, const std::string& group, const std::vector<int>& members,
           const std::vector<Span>& spans);
  void add(std::string_view phase, Ticks begin, Ticks end);

 private:
  bool has_room(std::size_t spans) ANELLO_REQUIRES(mutex_);

  std::atomic<bool> active_ = false;
  Mutex mutex_;
  Recording recording_ ANELLO_GUARDED_BY(mutex_);
};

}  // namespace anello::trace
