// Carries out an operation that is one short message at most to a peer and one from it, each with its signature in
// front: a transfer, and nearly every collective of two ranks. Does what a driver and an execution do for such a plan,
// to the same bytes and bits (but see add_scaled in arithmetic.hpp), in half of the instructions: there are no runs and
// positions to keep. One pass at a time; never waits. One thread at a time.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "ring/link/link.hpp"
#include "ring/plan/plan.hpp"
#include "ring/run/arithmetic.hpp"
#include "ring/run/buffer.hpp"
#include "ring/run/signature_check.hpp"

namespace anello::run {

class MessageExchange {
 public:
  static constexpr std::size_t kMaxDataBytes = 8192;  // of a message: as a driver joins with a signature

  explicit MessageExchange(Explain explain) : explain_(std::move(explain)) {}

  // Whether the plan is one message each way at most, and short, and what the rank keeps of its input.
  static bool suits(const plan::Plan& plan, const Arithmetic& arithmetic);

  // Whether such a plan's call does too: the buffers are no lists, and the input is not multiplied.
  static bool suits(const Buffer& input, const Buffer& output, const Scaling* inputs) {
    return !inputs && input.list().empty() && output.list().empty();
  }

  // Of a plan and a call that suit. `results`: what results are scaled by, or null. `links` by rank, those of the
  // plan's peers set. Links, tensors and scaling outlive the exchange.
  void start(const plan::Plan& plan, const Arithmetic& arithmetic, const Buffer& input, const Buffer& output,
             const Scaling* results, const Signature& signature, std::span<link::Link* const> links);
  bool done() const { return !outgoing_.link && !incoming_.link && own_.empty(); }

  // Sends and takes what can move now. True if anything moved. Throws as Driver::pass() does.
  bool pass();
  // The first part of a pass.
  bool send();

  // Calls want(link, wanted) for every link on which the next pass depends.
  template <class Want>
  void each_wanted(Want want) const {
    if (outgoing_.link) want(*outgoing_.link, link::Wanted::room);
    if (incoming_.link && incoming_.moved < incoming_.bytes) want(*incoming_.link, link::Wanted::bytes);
  }

  // Bytes of elements moved so far and in all. Nothing has come before all has, and the signature has been checked.
  std::pair<std::uint64_t, std::uint64_t> progress() const {
    const std::size_t sent = std::max(outgoing_.moved, kSignatureBytes) - kSignatureBytes;
    return {sent + (incoming_.link ? 0 : incoming_.data.size()), outgoing_.data.size() + incoming_.data.size()};
  }

 private:
  struct Message {
    link::Link* link = nullptr;  // null: there is none, or it is done
    int peer = -1;
    std::size_t bytes = 0, moved = 0;  // with the signature
    Bytes data;                        // in this rank's memory
  };
  void join();
  bool receive();
  std::size_t receive_in_place();
  std::size_t receive_copy();
  Bytes rest_of_copy();
  void take(const std::byte* data);

  Explain explain_;
  Message outgoing_, incoming_;
  Bytes own_;  // where what this rank keeps of its input goes; empty: it keeps nothing, or that has been copied
  const std::byte* own_from_ = nullptr;
  const std::byte* mine_ = nullptr;  // what the received data is combined with; null: it is copied
  bool incoming_left_ = false;
  bool taken_ = false;     // what came was used where it lay
  std::size_t elems_ = 0;  // received
  Arithmetic::Combine combine_ = nullptr;
  const Scaling* results_ = nullptr;  // null also if what is received makes no result
  EncodedSignature signature_;
  bool joined_ = false;                     // what is sent lies in `sent_`, in one run
  std::vector<std::byte> sent_, received_;  // grow when they are needed: there is an exchange for each group and pair
};

}  // namespace anello::run
