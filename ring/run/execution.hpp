// The progress of one plan. Uses only plans, buffers and arithmetic; makes no system call and reads no clock. The
// driver asks an Execution which data can be sent or received now, and reports how many bytes moved. One thread at a
// time. An object is used for many calls. start() and sendable() allocate memory only if a plan needs more memory than
// all earlier plans; then they may throw std::bad_alloc.
//
// Elements may be sent in a narrower type. Then every rank's contribution is rounded to this type once, even if the
// same rank reduces it. Every partial sum that is sent is rounded too. Data that is sent from the output is also
// rounded in the output, so that its owner has the same bits as the other ranks. All arithmetic is in the elements' own
// type, except that a fold of f16 or bf16 adds up in f32. Inputs are multiplied when they are sent or reduced, and stay
// unchanged. Results are scaled by the step that makes them, before they are rounded for sending: sums of f32 and f64
// as they are added, other results block by block while they are in the first-level cache.
//
// Data that must be narrowed or multiplied is computed just before it is sent, either in the link's memory or in a
// stage. The tiny tensors of a list are packed in the same way. Data for tiny tensors is received into the receive
// buffer, because a copy costs less than one more piece of a system call. All other data is sent and received in the
// tensors' memory, many pieces in one call.
#pragma once
#include <array>
#include <vector>

#include "ring/base/bytes.hpp"
#include "ring/plan/plan.hpp"
#include "ring/run/arithmetic.hpp"
#include "ring/run/buffer.hpp"
#include "ring/run/fold.hpp"
#include "ring/run/page_memory.hpp"
#include "ring/run/step_scaling.hpp"

namespace anello::run {

class Execution {
 public:
  // The number of bytes that are received at once. They are reduced while they are in the second-level cache.
  static constexpr std::size_t kReceiveBytes = 512 << 10;
  static constexpr std::size_t kBlockBytes = kFoldBytes;
  static constexpr std::size_t kLocalBytes = 256 << 10;  // maximum local work between two looks at the links
  static constexpr std::size_t kMaxElemBytes = 16;
  static constexpr std::size_t kStageBytes = 128 << 10;  // bytes computed at once for each stream that sends

  // `input` and `output` hold plan.input_elems and plan.output_elems elements. They do not overlap, or are the same
  // memory if the plan allows that. `results` and `inputs`: their scaling, or null. Inputs can only be multiplied, and
  // only in the plan of a reduction. In such a plan, a rank that combines no elements must only send. The plan, the
  // scalings and all memory must outlive the execution.
  void start(const plan::Plan& plan, const Arithmetic& arithmetic, const Buffer& input, const Buffer& output,
             const Scaling* results = nullptr, const Scaling* inputs = nullptr);
  bool done() const { return unfinished_ == 0; }

  // Call before anything has moved, if the peer's link supports replies (Plan::reply_elems). From then on accept()
  // writes this rank's replies, and the results that they contain are not sent. Returns false and does nothing if the
  // plan has no replies, elements are sent in a narrower type, or the link holds too few bytes. The peer's call of this
  // function returns the same value.
  bool use_replies(std::size_t link_bytes);
  // True if stream `s` next receives a reply instead of sent data.
  bool expects_reply(std::uint32_t s) const {
    return replies_ && !ended(s) && current(s).reply && current(s).act == plan::Act::copy;
  }
  // True if this send is left out, because a reply replaces it: the step that makes the result writes it to the link's
  // memory.
  bool is_not_sent(const plan::Step& step) const { return replies_ && step.reply && step.act == plan::Act::send; }
  const plan::Plan& plan() const { return *plan_; }
  bool is_list() const { return is_list_; }  // true if the input or the output is a list, with many pieces

  // Writes the pieces that stream `s` could send now to `pieces`, in order, and returns their number. If the input or
  // output is a list, stops once the pieces have max_bytes.
  std::size_t sendable(std::uint32_t s, std::span<ConstBytes> pieces, std::size_t max_bytes = SIZE_MAX) {
    return is_list_ || makes_ ? pieces_to_send(s, pieces, max_bytes) : runs_to_send(cursors_[s], pieces);
  }
  void sent(std::uint32_t s, std::size_t bytes);

  // True if stream `s` could send something now.
  bool can_send(std::uint32_t s) const { return !ended(s) && allowed(current(s)) > cursors_[s].elems; }

  // Returns how many bytes stream `s` may compute and send next, within its current step. 0 if its next data is in a
  // tensor, or was already computed into the stage.
  std::size_t to_make(std::uint32_t s) const { return makes_ ? sends_made(s) : 0; }
  // Computes the next data of stream `s` directly in the link's buffer `room`, which is aligned for the elements: as
  // many whole elements as are ready and fit. They count as sent. Returns their bytes. Call only if to_make() is not 0.
  std::size_t fill(std::uint32_t s, Bytes room);

  // Writes to `places` the memory for the next bytes of stream `s`, in order, and returns the number of places. Valid
  // until the next call of receivable().
  std::size_t receivable(std::uint32_t s, std::span<Bytes> places);
  void received(std::uint32_t s, std::size_t bytes);

  // Uses received bytes in the link's memory, where they are aligned for their type. Uses as many whole elements as
  // possible now, and returns their bytes. If the step replies, writes the reply to the same memory.
  std::size_t accept(std::uint32_t s, Bytes incoming);

  // Does local work that has become possible, at most kLocalBytes. Returns true if it did any.
  bool compute();

  bool ended(std::uint32_t s) const { return cursors_[s].step == cursors_[s].end; }
  // Call only if not ended(s).
  const plan::Step& current(std::uint32_t s) const { return plan_->steps[cursors_[s].step]; }

  // Returns the send that a reply replaces for this reduction; null if there is none. Searches from step `next` on, and
  // sets `next` to the step after that send. Pass reductions in order, so that each step is looked at only once.
  const plan::Step* reply_of(const plan::Step& reduction, std::uint32_t& next) const;

  // Returns the stream's current step, and the number of complete elements of this step. For StepTrace.
  std::pair<std::uint32_t, std::uint64_t> position(std::uint32_t s) const {
    return {cursors_[s].step, cursors_[s].elems};
  }

  // Returns the number of elements moved or computed so far, and the total, over all streams. For reports of progress.
  std::pair<std::uint64_t, std::uint64_t> progress() const;

 private:
  struct Cursor {
    std::uint32_t step = 0, end = 0;  // the current step and the stream's end
    std::uint32_t part = 0;           // bytes of an incomplete element; a reduction keeps these bytes in `carry`
    std::uint64_t elems = 0;          // number of complete elements of the current step; dependent steps may use them
    std::array<std::byte, kMaxElemBytes> carry{};
    std::uint32_t staged = 0, stage_sent = 0;  // elements in the stream's stage; how many of them are sent
    std::uint64_t before_stage = 0;            // elements sent directly from tensors before the elements in the stage
  };

  std::size_t sends_made(std::uint32_t s) const;
  void plan_stages();
  std::size_t pieces_to_send(std::uint32_t s, std::span<ConstBytes> pieces, std::size_t max_bytes);
  std::size_t runs_to_send(const Cursor& cursor, std::span<ConstBytes> pieces) const;
  ConstBytes staged(std::uint32_t s, std::uint32_t step, std::uint64_t from);
  std::uint64_t make(std::byte* out, std::uint64_t most, std::uint32_t i, std::uint32_t end, std::uint64_t from) const;
  void make_run(std::byte* out, plan::Operand operand, Bytes memory) const;
  std::size_t in_place(const plan::Step& step, const Cursor& cursor, std::uint64_t to, std::span<Bytes> places) const;
  bool is_plain_copy(const plan::Step& step) const { return step.act == plan::Act::copy && !arithmetic_.widen; }
  // Inline, because it is called for every piece.
  bool is_made(plan::Operand operand, std::uint64_t offset) const {
    return arithmetic_.narrow || scaling_.multiplies(operand) || in_small_pieces(operand, offset, 1) > 0;
  }
  std::uint64_t in_small_pieces(plan::Operand operand, std::uint64_t offset, std::uint64_t elems) const {
    if (!packs_) return 0;
    return spaces_[std::size_t(operand.space)].in_small_pieces(operand.at + offset, elems, arithmetic_.shift);
  }
  std::uint64_t allowed(const plan::Step& step) const;
  Bytes run(plan::Operand operand, std::uint64_t offset, std::uint64_t elems) const;
  void skip_replies(Cursor& cursor);
  void advance(Cursor& cursor, std::uint64_t elems);
  void take(const plan::Step& step, std::byte* incoming, std::uint64_t from, std::uint64_t elems);
  void take_whole(const plan::Step& step, std::byte* incoming, std::uint64_t from, std::uint64_t elems);
  void copy(const plan::Step& step, const std::byte* incoming, std::uint64_t from, std::uint64_t elems);
  void reduce(const plan::Step& step, std::byte* incoming, std::uint64_t from, std::uint64_t elems);
  const std::byte* contribution(plan::Operand operand, const std::byte* memory, std::uint64_t elems) const;
  const std::byte* multiplied(plan::Operand operand, const std::byte* memory, std::uint64_t elems) const;
  std::byte* block(int which) const { return receive_buffer_.get() + kReceiveBytes + std::size_t(which) * kBlockBytes; }
  bool is_in_place(const plan::Step& step) const;
  void fold(const plan::Step& step, std::uint64_t from, std::uint64_t to);
  void fold_block(const plan::Step& step, std::uint64_t from, std::uint64_t elems);

  const plan::Plan* plan_ = nullptr;
  Arithmetic arithmetic_;
  StepScaling scaling_;
  bool replies_ = false;
  bool in_blocks_ = false;        // a separate pass converts, scales or multiplies elements
  std::array<Buffer, 3> spaces_;  // by Space
  std::vector<Cursor> cursors_;
  std::uint32_t unfinished_ = 0;
  bool is_list_ = false;  // the input or the output is a list
  bool packs_ = false;    // the list has small tensors
  bool makes_ = false;    // data is narrowed, multiplied or packed before it is sent
  PageMemory receive_buffer_, scratch_;
  struct Stage {
    PageMemory memory;
    std::size_t wanted = 0;  // memory that the stage needs, in bytes
  };
  std::vector<Stage> stages_;  // by stream
};

}  // namespace anello::run
