// Carries out a plan message by message. Each step sends or receives one whole short message, or does local work, once
// all steps on which it depends have ended. Sends the same bytes and gives the same results as a Driver with an
// Execution (except that a NaN may be a different NaN), but needs fewer instructions, because it records no progress
// within steps. pass() never waits. One thread at a time.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ring/link/memory_link.hpp"
#include "ring/run/link_carrier.hpp"
#include "ring/run/message_header.hpp"
#include "ring/run/receive_turns.hpp"

namespace anello::run {

class MessageExecution final : public LinkCarrier {
 public:
  static constexpr std::size_t kMaxDataBytes = kJoinedBytes;  // data of one step

  explicit MessageExecution(Explain explain) : explain_(std::move(explain)) {}

  // True if every step of the plan is short, and its elements are sent in their own type.
  static bool suits(const plan::Plan& plan, const Arithmetic& arithmetic);

  // True if the call suits too: the buffers are not lists, and the input is not multiplied.
  static bool suits(const Buffer& input, const Buffer& output, const Scaling* inputs) {
    return !inputs && input.list().empty() && output.list().empty();
  }

  // Requires that suits() is true for the plan and the call. The load must outlive the execution.
  void begin(const Load& load) override;
  bool pass() override;
  bool send() override;

  void each_wanted(const Want& want) const override;

  // Returns the bytes of elements moved or computed so far, and the total. A message counts when it has been sent or
  // used.
  std::pair<std::uint64_t, std::uint64_t> progress() const override;
  Moved moved() const override { return moved_by(*plan_, arithmetic_->shift); }

 private:
  static constexpr std::size_t kPieces = 32;  // maximum number of pieces in one call of a link
  struct Stream {
    const plan::Step *step = nullptr, *end = nullptr;  // the next step, and the end of the stream's steps
    link::Link* link = nullptr;
    link::MemoryLink* memory = nullptr;  // the same link, if the stream receives and the link goes through memory
    int peer = -1;
    std::uint32_t ahead = 0;             // bytes of the signature before the first step's data
    std::uint32_t moved = 0, bytes = 0;  // bytes of the current message and its signature: moved so far, total
    std::vector<std::byte> kept;         // a received message that cannot be used yet; grows when needed
    bool ended() const { return step == end; }
    bool is_moved() const { return moved == bytes; }
  };
  std::uint32_t bytes_of(const plan::Step& step) const { return std::uint32_t(step.range.count << arithmetic_->shift); }
  std::byte* at(plan::Operand operand) const {
    return spaces_[std::size_t(operand.space)] + (operand.at << arithmetic_->shift);
  }
  bool has_ended(const plan::Step& step) const { return streams_[step.stream].step > &step; }
  // Inline, because most steps depend on one other step or none.
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
  std::span<const ConstBytes> join_pieces();
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
  const Arithmetic* arithmetic_ = nullptr;
  const Scaling* results_ = nullptr;
  std::array<std::byte*, 3> spaces_{};  // by Space
  EncodedSignature signature_;
  std::vector<Stream> streams_;  // an earlier plan may have had more streams than the current one
  std::uint32_t first_receive_ = 0, first_local_ = 0;
  std::uint32_t unsent_ = 0, unfinished_ = 0;  // numbers of sending streams, and of all streams, that have not ended
  std::uint32_t kept_ = 0;                     // messages that have arrived whole but wait for other steps
  ReceiveTurns turns_;
  std::array<ConstBytes, kPieces> pieces_;
  std::vector<std::byte> scratch_, joined_, partial_;  // scratch memory; grows when needed
};

}  // namespace anello::run
