// Records when the steps of one execution moved. The span of a step begins just before its first bytes move, and ends
// just after its last bytes have moved. Used by the thread that drives the execution; only while a timeline is on.
#pragma once
#include <span>
#include <vector>

#include "ring/run/execution.hpp"
#include "ring/trace/timeline.hpp"

namespace anello::run {

class StepTrace {
 public:
  // `members`: world ranks, by rank in the group; must outlive this object.
  explicit StepTrace(std::span<const int> members) : members_(members) {}

  // The execution must have been started.
  void start(const Execution& execution, std::uint32_t wire_shift, std::uint32_t shift);

  // Starts the trace of an operation without steps. Then only slept() and folded() record anything.
  void start();

  void mark() { last_ = trace::ticks(); }  // the next movement begins now
  // Records the steps that moved in the stream since the last mark; then sets a new mark.
  void look(std::uint32_t stream);
  void look_at_local();  // like look(), for all local streams

  // slept() records a sleep that began at `from`. folded() records a fold of the result, or a pass over it, that began
  // at the last mark.
  void slept(trace::Ticks from);
  void folded(std::uint64_t bytes);
  void scaled(std::uint64_t bytes);

  const std::vector<trace::Span>& spans() const { return spans_; }

 private:
  struct Position {
    std::uint32_t step = 0;
    std::uint64_t elems = 0;
    trace::Ticks begun = 0;  // when the step began; 0: not yet
  };
  void ended(const plan::Step& what, trace::Ticks begin, trace::Ticks end);
  void passed(trace::Span::What what, std::uint64_t bytes);

  const Execution* execution_ = nullptr;
  std::span<const int> members_;
  std::uint32_t wire_shift_ = 0, shift_ = 0;
  trace::Ticks last_ = 0;
  std::uint32_t next_reply_ = 0;     // the replies of all steps before this step have been recorded
  std::vector<Position> positions_;  // by stream
  std::vector<trace::Span> spans_;
};

}  // namespace anello::run
