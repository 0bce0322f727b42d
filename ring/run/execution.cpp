#include "ring/run/execution.hpp"

#include <algorithm>
#include <cstring>

#include "ring/plan/limit.hpp"
#include "ring/run/fold.hpp"

namespace anello::run {

namespace {
// Small blocks of elements that stay in the first-level cache. They lie after the receive buffer.
enum Block { kPartialBlock, kIncomingBlock, kOwnBlock, kBlocks };

// Rounds elements to the type in which they are sent, and converts them back.
void round(const Arithmetic& arithmetic, Bytes memory) {
  std::array<std::byte, Execution::kBlockBytes> narrow;
  while (!memory.empty()) {
    const Bytes some = memory.first(std::min(memory.size(), Execution::kBlockBytes));
    arithmetic.narrow(narrow.data(), some.data(), some.size() >> arithmetic.shift);
    arithmetic.widen(some.data(), narrow.data(), some.size() >> arithmetic.shift);
    memory = memory.subspan(some.size());
  }
}

}  // namespace

void Execution::start(const plan::Plan& plan, const Arithmetic& arithmetic, const Buffer& input, const Buffer& output,
                      const Scaling* results, const Scaling* inputs) {
  plan_ = &plan;
  arithmetic_ = arithmetic;
  scaling_ = StepScaling(arithmetic, results, inputs);
  in_blocks_ = arithmetic.widen || scaling_.needs_pass();
  replies_ = false;
  packs_ = input.has_small_pieces(arithmetic.shift) || output.has_small_pieces(arithmetic.shift);
  if (plan.reduces || arithmetic.widen || packs_) receive_buffer_.reserve(kReceiveBytes + kBlocks * kBlockBytes);
  scratch_.reserve(plan.scratch_elems << arithmetic.shift);
  spaces_ = {input, output, Buffer(scratch_.get(), plan.scratch_elems)};
  if (cursors_.size() < plan.streams.size()) cursors_.resize(plan.streams.size());
  for (std::size_t s = 0; s < plan.streams.size(); s++) {
    Cursor& cursor = cursors_[s];
    cursor.step = plan.streams[s].first;
    cursor.end = plan.streams[s].end;
    cursor.elems = cursor.part = cursor.staged = cursor.stage_sent = 0;
  }
  unfinished_ = std::uint32_t(plan.streams.size());
  is_list_ = !input.list().empty() || !output.list().empty();
  makes_ = packs_ || arithmetic.narrow || inputs;
  if (makes_) plan_stages();
}

bool Execution::use_replies(std::size_t link_bytes) {
  constexpr std::size_t kAhead = 256;  // bytes; more than the signature and the padding to the next cache line
  const std::size_t bytes = plan_->reply_elems << arithmetic_.shift;
  replies_ = bytes > 0 && !arithmetic_.narrow && bytes + kAhead <= link_bytes;
  for (std::size_t s = 0; s < plan_->streams.size() && replies_; s++) skip_replies(cursors_[s]);
  return replies_;
}

const plan::Step* Execution::reply_of(const plan::Step& reduction, std::uint32_t& next) const {
  if (!replies_ || reduction.act != plan::Act::reduce) return nullptr;
  while (next < plan_->steps.size()) {
    const plan::Step& step = plan_->steps[next++];
    if (is_not_sent(step) && step.range == reduction.range) return &step;
  }
  return nullptr;
}

// Returns how many of the step's first elements may be processed now, according to the progress of the steps on which
// it depends.
std::uint64_t Execution::allowed(const plan::Step& step) const {
  if (step.deps == 0) return step.range.count;
  const std::uint64_t end = limit(*plan_, step, [this](std::uint32_t stream) {
    return plan::Position{cursors_[stream].step, cursors_[stream].elems};
  });
  return end > step.range.begin ? end - step.range.begin : 0;
}

Bytes Execution::run(plan::Operand operand, std::uint64_t offset, std::uint64_t elems) const {
  return spaces_[std::size_t(operand.space)].run(operand.at + offset, elems, arithmetic_.shift);
}

void Execution::advance(Cursor& cursor, std::uint64_t elems) {
  cursor.elems += elems;
  if (cursor.elems < plan_->steps[cursor.step].range.count) return;
  cursor.elems = 0;
  cursor.step++;
  if (replies_) skip_replies(cursor);
  if (cursor.step == cursor.end) unfinished_--;
}

void Execution::skip_replies(Cursor& cursor) {
  while (cursor.step < cursor.end && is_not_sent(plan_->steps[cursor.step])) cursor.step++;
}

// Data of a copy is received directly into its place, unless the place is in tiny tensors. All other data is received
// into the receive buffer, after the partial element of an earlier call.
std::size_t Execution::receivable(std::uint32_t s, std::span<Bytes> places) {
  Cursor& cursor = cursors_[s];
  if (cursor.step == cursor.end) return 0;
  const plan::Step& step = plan_->steps[cursor.step];
  const std::uint64_t to = allowed(step);
  if (to <= cursor.elems) return 0;
  if (is_plain_copy(step) && !is_list_) {
    places[0] = run(step.place, cursor.elems, to - cursor.elems).subspan(cursor.part);
    return 1;
  }
  std::uint64_t elems = std::min<std::uint64_t>(to - cursor.elems, kReceiveBytes >> arithmetic_.wire_shift);
  if (is_plain_copy(step)) {
    if (const std::size_t count = in_place(step, cursor, to, places)) return count;
    elems = in_small_pieces(step.place, cursor.elems, elems);
  }
  std::memcpy(receive_buffer_.get(), cursor.carry.data(), kMaxElemBytes);
  places[0] = {receive_buffer_.get() + cursor.part, (std::size_t(elems) << arithmetic_.wire_shift) - cursor.part};
  return 1;
}

std::size_t Execution::in_place(const plan::Step& step, const Cursor& cursor, std::uint64_t to,
                                std::span<Bytes> places) const {
  std::size_t filled = 0;
  for (std::uint64_t from = cursor.elems; from < to && filled < places.size(); filled++) {
    if (in_small_pieces(step.place, from, 1) > 0) break;
    places[filled] = run(step.place, from, to - from);
    from += places[filled].size() >> arithmetic_.shift;
  }
  if (filled > 0) places[0] = places[0].subspan(cursor.part);
  return filled;
}

void Execution::received(std::uint32_t s, std::size_t bytes) {
  Cursor& cursor = cursors_[s];
  const plan::Step& step = plan_->steps[cursor.step];
  const std::size_t total = cursor.part + bytes;
  const std::uint64_t elems = total >> arithmetic_.wire_shift;
  cursor.part = std::uint32_t(total - (elems << arithmetic_.wire_shift));
  if (!is_plain_copy(step) || in_small_pieces(step.place, cursor.elems, 1) > 0) {
    take(step, receive_buffer_.get(), cursor.elems, elems);
    if (cursor.part > 0)
      std::memcpy(cursor.carry.data(), receive_buffer_.get() + (elems << arithmetic_.wire_shift), cursor.part);
  }
  if (elems) advance(cursor, elems);
}

std::size_t Execution::accept(std::uint32_t s, Bytes incoming) {
  Cursor& cursor = cursors_[s];
  if (cursor.step == cursor.end) return 0;
  const plan::Step& step = plan_->steps[cursor.step];
  const std::uint64_t to = allowed(step);
  if (to <= cursor.elems) return 0;
  const std::uint64_t elems = std::min<std::uint64_t>(to - cursor.elems, incoming.size() >> arithmetic_.wire_shift);
  if (elems == 0) return 0;
  take(step, incoming.data(), cursor.elems, elems);
  advance(cursor, elems);
  return std::size_t(elems) << arithmetic_.wire_shift;
}

// Carries out the step for elements that were received: copies them to the step's place, or reduces them into it.
// `incoming` has the elements in the type in which they were sent.
void Execution::take(const plan::Step& step, std::byte* incoming, std::uint64_t from, std::uint64_t elems) {
  if (!in_blocks_) return take_whole(step, incoming, from, elems);
  while (elems > 0) {
    const std::uint64_t count = std::min<std::uint64_t>(elems, kBlockBytes >> arithmetic_.shift);
    std::byte* whole = incoming;
    if (arithmetic_.widen) {
      arithmetic_.widen(block(kIncomingBlock), incoming, count);
      whole = block(kIncomingBlock);
    }
    take_whole(step, whole, from, count);
    incoming += count << arithmetic_.wire_shift;
    from += count;
    elems -= count;
  }
}

void Execution::take_whole(const plan::Step& step, std::byte* incoming, std::uint64_t from, std::uint64_t elems) {
  if (step.act == plan::Act::reduce)
    reduce(step, incoming, from, elems);
  else
    copy(step, incoming, from, elems);
}

// Returns the operand's elements after prescaling. If `scaling_` multiplies them, `elems` is at most one block.
const std::byte* Execution::multiplied(plan::Operand operand, const std::byte* memory, std::uint64_t elems) const {
  if (!scaling_.multiplies(operand)) return memory;
  scaling_.inputs->multiply(block(kOwnBlock), memory, elems, scaling_.inputs->factor);
  return block(kOwnBlock);
}

// Returns this rank's contribution after prescaling and rounding to the sent type. If elements must be multiplied or
// rounded, `elems` is at most one block.
const std::byte* Execution::contribution(plan::Operand operand, const std::byte* memory, std::uint64_t elems) const {
  memory = multiplied(operand, memory, elems);
  if (!arithmetic_.narrow || operand.space != plan::Space::input) return memory;
  std::array<std::byte, kBlockBytes> narrow;
  arithmetic_.narrow(narrow.data(), memory, elems);
  arithmetic_.widen(block(kOwnBlock), narrow.data(), elems);
  return block(kOwnBlock);
}

void Execution::copy(const plan::Step& step, const std::byte* incoming, std::uint64_t from, std::uint64_t elems) {
  while (elems) {
    const Bytes place = run(step.place, from, elems);
    std::memcpy(place.data(), incoming, place.size());
    incoming += place.size();
    from += place.size() >> arithmetic_.shift;
    elems -= place.size() >> arithmetic_.shift;
  }
}

void Execution::reduce(const plan::Step& step, std::byte* incoming, std::uint64_t from, std::uint64_t elems) {
  const plan::Operand source = plan_->sources[step.first_source];
  const bool replies = replies_ && step.reply, scales = scaling_.results_apart && step.makes_result;
  const bool twice = replies && !scales && arithmetic_.combine_twice;
  const bool takes_own_as_it_is = scaling_.while_adding || !in_blocks_;
  const Factors by = scaling_.while_adding ? scaling_.factors(*plan_, step) : Factors{};
  while (elems) {
    const Bytes place = run(step.place, from, elems);
    const Bytes local = run(source, from, place.size() >> arithmetic_.shift);
    const std::uint64_t count = local.size() >> arithmetic_.shift;
    const std::byte* const mine = takes_own_as_it_is ? local.data() : contribution(source, local.data(), count);
    const std::byte* const left = step.incoming_left ? incoming : mine;
    const std::byte* const right = step.incoming_left ? mine : incoming;
    if (scaling_.while_adding)
      arithmetic_.add_scaled(place.data(), twice ? incoming : nullptr, left, right, count, by);
    else if (twice)
      arithmetic_.combine_twice(place.data(), incoming, left, right, count);
    else
      arithmetic_.combine(place.data(), left, right, count);
    if (scales) scaling_.results->apply(place.data(), count);
    if (replies && !twice) std::memcpy(incoming, place.data(), local.size());
    incoming += local.size();
    from += count;
    elems -= count;
  }
}

bool Execution::compute() {
  std::uint64_t left = kLocalBytes >> arithmetic_.shift;
  for (std::size_t s = plan_->streams.size(); s-- > 0 && plan_->streams[s].kind == plan::Stream::Kind::local;) {
    Cursor& cursor = cursors_[s];
    while (cursor.step < cursor.end && left > 0) {
      const plan::Step& step = plan_->steps[cursor.step];
      const std::uint64_t to = std::min(allowed(step), cursor.elems + left);
      if (to <= cursor.elems) break;
      fold(step, cursor.elems, to);
      left -= to - cursor.elems;
      advance(cursor, to - cursor.elems);
    }
  }
  return left < kLocalBytes >> arithmetic_.shift;
}

// True if the step would copy elements onto themselves: input and output are the same memory and nothing is scaled.
bool Execution::is_in_place(const plan::Step& step) const {
  const plan::Operand source = plan_->sources[step.first_source];
  if ((scaling_.results && step.makes_result) || scaling_.multiplies(source)) return false;
  return step.sources == 1 && source.space != step.place.space && source.at == step.place.at &&
         spaces_[std::size_t(source.space)].is_same(spaces_[std::size_t(step.place.space)]);
}

// Works block by block, so that partial results stay in the first-level cache.
void Execution::fold(const plan::Step& step, std::uint64_t from, std::uint64_t to) {
  if (is_in_place(step)) return;
  const std::uint64_t block = block_elems(arithmetic_);
  while (from < to) {
    const std::uint64_t most = step.sources == 1 && !in_blocks_ ? to - from : std::min(to - from, block);
    std::uint64_t elems = run(step.place, from, most).size() >> arithmetic_.shift;
    for (std::uint32_t k = 0; k < step.sources; k++)
      elems = run(plan_->sources[step.first_source + k], from, elems).size() >> arithmetic_.shift;
    fold_block(step, from, elems);
    from += elems;
  }
}

// The destination may be one of the sources, so it is written last.
void Execution::fold_block(const plan::Step& step, std::uint64_t from, std::uint64_t elems) {
  const plan::Operand* source = plan_->sources.data() + step.first_source;
  const Bytes place = run(step.place, from, elems);
  const std::byte* left = run(source[0], from, elems).data();
  if (step.sources == 1 && scaling_.multiplies(source[0]))
    scaling_.inputs->multiply(place.data(), left, elems, scaling_.inputs->factor);
  else if (step.sources == 1 && left != place.data())
    std::memcpy(place.data(), left, place.size());
  if (step.sources == 1 && source[0] == step.place && arithmetic_.narrow) round(arithmetic_, place);
  if (step.sources > 1) {
    const auto contribution_of = [&](std::uint32_t k) {
      return contribution(source[k], run(source[k], from, elems).data(), elems);
    };
    run::fold(arithmetic_, step.sources, contribution_of, place.data(), block(kPartialBlock), elems);
  }
  if (scaling_.results && step.makes_result) scaling_.results->apply(place.data(), elems);
}

std::pair<std::uint64_t, std::uint64_t> Execution::progress() const {
  std::uint64_t moved = 0, all = 0;
  for (std::size_t s = 0; s < plan_->streams.size(); s++) {
    const plan::Stream& stream = plan_->streams[s];
    for (std::uint32_t i = stream.first; i < stream.end; i++) {
      const std::uint64_t count = plan_->steps[i].range.count;
      all += count;
      if (i < cursors_[s].step)
        moved += count;
      else if (i == cursors_[s].step)
        moved += cursors_[s].elems;
    }
  }
  return {moved, all};
}

}  // namespace anello::run
