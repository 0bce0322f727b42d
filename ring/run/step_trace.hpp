// Watches one execution and notes which step moved when: a span from the moment before a step's first bytes move to
// the moment after its last. Used by the thread that drives it; only while a timeline is on.
#pragma once
#include <span>
#include <vector>

#include "ring/run/execution.hpp"
#include "ring/trace/timeline.hpp"

namespace anello::run {

class StepTrace {
 public:
  // The execution has been started. `members` are ranks in the world, by rank in the group.
  void start(const Execution& execution, std::span<const int> members, std::uint32_t wire_shift, std::uint32_t shift);

  // What has no steps; then only what follows is noted.
  void start();

  void mark() { last_ = trace::ticks(); }  // what moves next begins now
  void look(std::uint32_t stream);         // it may have moved since the last mark; marks
  void look_at_local();                    // the same for all local streams

  // Other than steps: a sleep that began at `from`, and a fold of, or a pass over, the result since the last mark.
  void slept(trace::Ticks from);
  void folded(std::uint64_t bytes);
  void scaled(std::uint64_t bytes);

  const std::vector<trace::Span>& spans() const { return spans_; }

 private:
  struct Position {
    std::uint32_t step = 0;
    std::uint64_t elems = 0;
    trace::Ticks begun = 0;  // the step; 0: not yet
  };
  void ended(const plan::Step& what, trace::Ticks begin, trace::Ticks end);
  void passed(trace::Span::What what, std::uint64_t bytes);

  const Execution* execution_ = nullptr;
  std::span<const int> members_;
  std::uint32_t wire_shift_ = 0, shift_ = 0;
  trace::Ticks last_ = 0;
  std::uint32_t next_reply_ = 0;     // step: replies before it have been noted
  std::vector<Position> positions_;  // by stream
  std::vector<trace::Span> spans_;
};

}  // namespace anello::run
