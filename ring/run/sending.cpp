// Sending in Execution, with the stages for data that must be narrowed, multiplied or packed first.
#include <algorithm>
#include <cstring>

#include "ring/run/execution.hpp"

namespace anello::run {

// Chooses the size of each stage: at most the size of all data that the stream sends. Memory is allocated at first use,
// because data that is computed in a link's shared memory needs no stage.
void Execution::plan_stages() {
  if (stages_.size() < plan_->streams.size()) stages_.resize(plan_->streams.size());
  for (std::size_t s = 0; s < plan_->streams.size(); s++) {
    const plan::Stream& stream = plan_->streams[s];
    if (stream.kind != plan::Stream::Kind::send) break;
    std::size_t bytes = 0;
    for (std::uint32_t i = stream.first; i < stream.end && bytes < kStageBytes; i++)
      bytes += std::size_t(plan_->steps[i].range.count) << arithmetic_.wire_shift;
    stages_[s].wanted = std::min(bytes, kStageBytes);
  }
}

std::size_t Execution::sends_made(std::uint32_t s) const {
  const Cursor& cursor = cursors_[s];
  const plan::Step& step = current(s);
  const std::uint64_t to = allowed(step);
  if (to <= cursor.elems || !is_made(step.place, cursor.elems)) return 0;
  const bool begun = cursor.part > 0 || cursor.stage_sent < cursor.staged;
  return begun ? 0 : std::size_t(to - cursor.elems) << arithmetic_.wire_shift;
}

std::size_t Execution::fill(std::uint32_t s, Bytes room) {
  const Cursor& cursor = cursors_[s];
  const std::uint64_t most = room.size() >> arithmetic_.wire_shift;
  const auto bytes =
      std::size_t(make(room.data(), most, cursor.step, cursor.end, cursor.elems) << arithmetic_.wire_shift);
  sent(s, bytes);
  return bytes;
}

// Fills `pieces` with memory of tensors, up to the first data that must be computed. That data is computed in the
// stage, which is then the last piece.
std::size_t Execution::pieces_to_send(std::uint32_t s, std::span<ConstBytes> pieces, std::size_t max_bytes) {
  Cursor& cursor = cursors_[s];
  const std::uint64_t max_elems = max_bytes >> arithmetic_.shift;
  std::uint64_t from = cursor.elems, before = 0;
  std::size_t part = cursor.part, filled = 0;
  for (std::uint32_t i = cursor.step; i < cursor.end; i++, from = 0) {
    const plan::Step& step = plan_->steps[i];
    if (is_not_sent(step)) continue;
    const std::uint64_t to = allowed(step);
    while (from < to) {
      if (filled == pieces.size() || (filled > 0 && before >= max_elems)) return filled;
      if (makes_ && is_made(step.place, from)) {
        cursor.before_stage = before;
        pieces[filled++] = staged(s, i, from).subspan(part);
        return filled;
      }
      const Bytes memory = run(step.place, from, to - from);
      from += memory.size() >> arithmetic_.shift;
      before += memory.size() >> arithmetic_.shift;
      pieces[filled++] = memory.subspan(part);
      part = 0;
    }
    if (to < step.range.count) break;
  }
  return filled;
}

// Fills `pieces` with one contiguous range for each step, if no element needs conversion.
std::size_t Execution::runs_to_send(const Cursor& cursor, std::span<ConstBytes> pieces) const {
  std::uint64_t from = cursor.elems;
  std::size_t filled = 0;
  for (std::uint32_t i = cursor.step; i < cursor.end && filled < pieces.size(); i++, from = 0) {
    const plan::Step& step = plan_->steps[i];
    if (is_not_sent(step)) continue;
    const std::uint64_t to = allowed(step);
    if (from < to) pieces[filled++] = run(step.place, from, to - from);
    if (to < step.range.count) break;
  }
  if (filled > 0) pieces[0] = pieces[0].subspan(cursor.part);
  return filled;
}

// Returns the unsent rest of the stage. If all of it is sent, first fills the stage, beginning with element `from` of
// `step`.
ConstBytes Execution::staged(std::uint32_t s, std::uint32_t step, std::uint64_t from) {
  Cursor& cursor = cursors_[s];
  Stage& stage = stages_[s];
  stage.memory.reserve(stage.wanted);
  if (cursor.stage_sent == cursor.staged) {
    cursor.staged =
        std::uint32_t(make(stage.memory.get(), stage.memory.bytes() >> arithmetic_.wire_shift, step, cursor.end, from));
    cursor.stage_sent = 0;
  }
  const std::size_t left = std::size_t(cursor.staged - cursor.stage_sent) << arithmetic_.wire_shift;
  return {stage.memory.get() + (std::size_t(cursor.stage_sent) << arithmetic_.wire_shift), left};
}

// Computes the data to send and writes it to `out`: at most `most` elements, from element `from` of step `i` on. May
// continue with later steps before `end`. Returns the number of elements.
std::uint64_t Execution::make(std::byte* out, std::uint64_t most, std::uint32_t i, std::uint32_t end,
                              std::uint64_t from) const {
  std::uint64_t made = 0;
  for (; i < end; i++, from = 0) {
    const plan::Step& step = plan_->steps[i];
    if (is_not_sent(step)) continue;
    const std::uint64_t to = allowed(step);
    while (from < to && made < most && is_made(step.place, from)) {
      const Bytes memory = run(step.place, from, std::min(to - from, most - made));
      make_run(out + (made << arithmetic_.wire_shift), step.place, memory);
      made += memory.size() >> arithmetic_.shift;
      from += memory.size() >> arithmetic_.shift;
    }
    if (from < step.range.count) break;
  }
  return made;
}

void Execution::make_run(std::byte* out, plan::Operand operand, Bytes memory) const {
  const std::size_t elems = memory.size() >> arithmetic_.shift;
  if (arithmetic_.narrow && scaling_.multiplies(operand)) {
    const std::size_t block = kBlockBytes >> arithmetic_.shift;
    for (std::size_t at = 0; at < elems; at += block) {
      const std::size_t some = std::min(block, elems - at);
      const std::byte* const from = multiplied(operand, memory.data() + (at << arithmetic_.shift), some);
      arithmetic_.narrow(out + (at << arithmetic_.wire_shift), from, some);
    }
  } else if (arithmetic_.narrow) {
    arithmetic_.narrow(out, memory.data(), elems);
    if (operand.space == plan::Space::output) arithmetic_.widen(memory.data(), out, elems);
  } else if (scaling_.multiplies(operand)) {
    scaling_.inputs->multiply(out, memory.data(), elems, scaling_.inputs->factor);
  } else {
    std::memcpy(out, memory.data(), memory.size());
  }
}

void Execution::sent(std::uint32_t s, std::size_t bytes) {
  Cursor& cursor = cursors_[s];
  bytes += cursor.part;
  cursor.part = 0;
  while (bytes >> arithmetic_.wire_shift) {
    const std::uint64_t left = plan_->steps[cursor.step].range.count - cursor.elems;
    const std::uint64_t elems = std::min<std::uint64_t>(left, bytes >> arithmetic_.wire_shift);
    bytes -= elems << arithmetic_.wire_shift;
    if (cursor.stage_sent < cursor.staged) {
      const std::uint64_t in_place = std::min(elems, cursor.before_stage);
      cursor.before_stage -= in_place;
      cursor.stage_sent += std::uint32_t(elems - in_place);
    }
    advance(cursor, elems);
  }
  cursor.part = std::uint32_t(bytes);
}

}  // namespace anello::run
