// Carries out a plan message by message: each of its steps sends or takes one short message whole, or does local work,
// when all that it depends on has ended. Does what a driver and an execution do for such a plan, to the same bytes and
// bits (except which of two NaNs it is), in fewer instructions: there are no runs and positions within steps to keep.
// One pass at a time; never waits. One thread at a time.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ring/link/link.hpp"
#include "ring/plan/plan.hpp"
#include "ring/run/arithmetic.hpp"
#include "ring/run/buffer.hpp"
#include "ring/run/message_header.hpp"
#include "ring/run/receive_turns.hpp"

namespace anello::run {

class MessageExecution {
 public:
  static constexpr std::size_t kMaxDataBytes = kJoinedBytes;  // of a step

  explicit MessageExecution(Explain explain) : explain_(std::move(explain)) {}

  // Whether every step of the plan is short, and goes as it lies.
  static bool suits(const plan::Plan& plan, const Arithmetic& arithmetic);

  // Whether such a plan's call does too: the buffers are no lists, and the input is not multiplied.
  static bool suits(const Buffer& input, const Buffer& output, const Scaling* inputs) {
    return !inputs && input.list().empty() && output.list().empty();
  }

  // Of a plan and a call that suit. `results`: what results are scaled by, or null. `links` by rank, those of the
  // plan's peers set. Plan, links, tensors and scaling outlive the execution. Throws std::bad_alloc.
  void start(const plan::Plan& plan, const Arithmetic& arithmetic, const Buffer& input, const Buffer& output,
             const Scaling* results, const Signature& signature, std::span<link::Link* const> links);
  bool done() const { return unfinished_ == 0; }

  // Sends, takes and computes what can be done now. True if anything was. Throws as Driver::pass() does.
  bool pass();
  // The first part of a pass.
  bool send();

  // Calls want(link, wanted) for every link on which the next pass depends.
  template <class Want>
  void each_wanted(Want want) const {
    for (std::uint32_t s = 0; s < first_local_; s++) {
      const Stream& stream = streams_[s];
      if (stream.ended()) continue;
      if (s >= first_receive_ && may_receive(stream)) want(*stream.link, link::Wanted::bytes);
      if (s < first_receive_ && is_ready(*stream.step)) want(*stream.link, link::Wanted::room);
    }
  }

  // Bytes of elements moved or computed so far and in all. A message counts when it has been sent or used.
  std::pair<std::uint64_t, std::uint64_t> progress() const;

 private:
  static constexpr std::size_t kPieces = 32;  // in one call of a link
  struct Stream {
    const plan::Step *step = nullptr, *end = nullptr;  // the next, and the end of the stream's steps
    link::Link* link = nullptr;
    int peer = -1;
    std::uint32_t ahead = 0;             // bytes of the signature, which goes before the first step's data
    std::uint32_t moved = 0, bytes = 0;  // of the signature and the step's data
    std::vector<std::byte> kept;         // received, if it cannot be used where it lies; grows when it is needed
    bool ended() const { return step == end; }
    bool is_moved() const { return moved == bytes; }
  };
  std::uint32_t bytes_of(const plan::Step& step) const { return std::uint32_t(step.range.count << arithmetic_.shift); }
  std::byte* at(plan::Operand operand) const {
    return spaces_[std::size_t(operand.space)] + (operand.at << arithmetic_.shift);
  }
  bool has_ended(const plan::Step& step) const { return streams_[step.stream].step > &step; }
  // Inline, because most steps wait for one other or none.
  bool is_ready(const plan::Step& step) const {
    const plan::Dep* const deps = plan_->deps.data() + step.first_dep;
    for (std::uint32_t k = 0; k < step.deps; k++)
      if (!has_ended(plan_->steps[deps[k].step])) return false;
    return true;
  }
  bool may_receive(const Stream& stream) const;
  void end_step(Stream& stream);
  bool send_some(Stream& stream);
  std::span<const ConstBytes> pieces_to_send(const Stream& stream);
  Look receive_some(Stream& stream);
  bool receive(Stream& stream);
  static Bytes room_to_keep(Stream& stream);
  bool take_kept(Stream& stream);
  bool take_all_kept();
  void take(Stream& stream, const std::byte* message);
  bool compute();
  void fold(const plan::Step& step);

  Explain explain_;
  const plan::Plan* plan_ = nullptr;
  Arithmetic arithmetic_;
  const Scaling* results_ = nullptr;
  std::array<std::byte*, 3> spaces_{};  // by Space
  EncodedSignature signature_;
  std::vector<Stream> streams_;  // those of the plan, and more if an earlier plan had more
  std::uint32_t first_receive_ = 0, first_local_ = 0;
  std::uint32_t unsent_ = 0, unfinished_ = 0;  // streams that have not ended: those that send, and all
  std::uint32_t kept_ = 0;                     // messages that have come whole, but wait for other steps
  ReceiveTurns turns_;
  std::array<ConstBytes, kPieces> pieces_;
  std::vector<std::byte> scratch_, joined_, partial_;  // grow when they are needed
};

}  // namespace anello::run
