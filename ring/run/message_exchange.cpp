#include "ring/run/message_exchange.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace anello::run {

using plan::Act;
using plan::Stream;

namespace {

// What this rank keeps of its input. It is copied last, so it may wait for anything, and nothing for it.
bool is_own_part(const plan::Plan& plan, const plan::Step& step) {
  return step.act == Act::fold && step.sources == 1 && !step.makes_result &&
         plan.sources[step.first_source].space == plan::Space::input;
}

bool waits_for_sends_only(const plan::Plan& plan, const plan::Step& step) {
  const std::span deps = std::span(plan.deps).subspan(step.first_dep, step.deps);
  return std::ranges::all_of(deps, [&](const plan::Dep& dep) { return plan.steps[dep.step].act == Act::send; });
}

}  // namespace

bool MessageExchange::suits(const plan::Plan& plan, const Arithmetic& arithmetic) {
  if (arithmetic.narrow || plan.scratch_elems > 0) return false;
  if (plan.streams.empty() || plan.steps.size() != plan.streams.size()) return false;
  for (std::size_t s = 0; s < plan.streams.size(); s++) {
    const plan::Step& step = plan.steps[s];
    const Stream::Kind kind = plan.streams[s].kind;
    if (s > 0 && kind == plan.streams[s - 1].kind) return false;
    const bool may = kind == Stream::Kind::send      ? step.deps == 0
                     : kind == Stream::Kind::receive ? waits_for_sends_only(plan, step)
                                                     : s > 0 && is_own_part(plan, step);
    if (!may || step.range.count << arithmetic.shift > kMaxDataBytes) return false;
  }
  return true;
}

void MessageExchange::start(const plan::Plan& plan, const Arithmetic& arithmetic, const Buffer& input,
                            const Buffer& output, const Scaling* results, const Signature& signature,
                            std::span<link::Link* const> links) {
  const auto lies = [&](plan::Operand operand) {
    return (operand.space == plan::Space::input ? input : output).single(operand.at, arithmetic.shift);
  };
  encode(signature, signature_);
  for (Message* const message : {&outgoing_, &incoming_}) {
    message->link = nullptr;
    message->moved = 0;
    message->data = {};
  }
  taken_ = false;
  own_ = {};
  for (const Stream& stream : plan.streams) {
    const plan::Step& step = plan.steps[stream.first];
    if (stream.kind == Stream::Kind::local) {
      own_ = {lies(step.place), std::size_t(step.range.count << arithmetic.shift)};
      own_from_ = lies(plan.sources[step.first_source]);
      continue;
    }
    const bool sending = step.act == Act::send;
    Message& message = sending ? outgoing_ : incoming_;
    message.link = links[std::size_t(stream.peer)];
    message.peer = stream.peer;
    message.data = {lies(step.place), std::size_t(step.range.count << arithmetic.shift)};
    message.bytes = kSignatureBytes + message.data.size();
    message.link->begin(sending, false);
    if (sending) continue;
    mine_ = step.act == Act::reduce ? lies(plan.sources[step.first_source]) : nullptr;
    incoming_left_ = step.incoming_left;
    elems_ = step.range.count;
    combine_ = arithmetic.combine;
    results_ = step.makes_result ? results : nullptr;
  }
  joined_ = outgoing_.link && outgoing_.link->prefers_one_piece();
  if (joined_) join();
}

void MessageExchange::join() {
  if (sent_.size() < outgoing_.bytes) sent_.resize(outgoing_.bytes);
  std::memcpy(sent_.data(), signature_.data(), kSignatureBytes);
  std::memcpy(sent_.data() + kSignatureBytes, outgoing_.data.data(), outgoing_.data.size());
}

bool MessageExchange::send() {
  if (!outgoing_.link) return false;
  const auto send_from = [this](std::span<const ConstBytes> pieces) {
    return link::with_rank(outgoing_.peer, [&] { return outgoing_.link->send_from(pieces); });
  };
  std::size_t bytes = 0;
  if (joined_) {
    const ConstBytes all = std::span(sent_).first(outgoing_.bytes);
    bytes = send_from(std::array{all.subspan(outgoing_.moved)});
  } else {
    const ConstBytes signature = std::as_bytes(std::span(signature_)), data = outgoing_.data;
    const std::size_t of_signature = std::min(outgoing_.moved, kSignatureBytes);
    bytes = send_from(std::array{signature.subspan(of_signature), data.subspan(outgoing_.moved - of_signature)});
  }
  outgoing_.moved += bytes;
  if (outgoing_.moved == outgoing_.bytes) outgoing_.link = nullptr;
  return bytes > 0;
}

// What comes whole when all is sent, as nearly all does, is used where it lies. Else it is kept: it may be written to
// what is still being sent.
std::size_t MessageExchange::receive_in_place() {
  const ConstBytes there = link::with_rank(incoming_.peer, [&] { return incoming_.link->peek(); });
  const std::size_t bytes = std::min(there.size(), incoming_.bytes - incoming_.moved);
  if (bytes == 0) return 0;
  if (bytes == incoming_.bytes && !outgoing_.link) {
    check_signature(signature_, there, incoming_.peer, explain_);
    take(there.data() + kSignatureBytes);
    taken_ = true;
  } else {
    std::copy_n(there.begin(), bytes, rest_of_copy().begin());
  }
  link::with_rank(incoming_.peer, [&] { incoming_.link->consume(bytes); });
  return bytes;
}

std::size_t MessageExchange::receive_copy() {
  const Bytes rest = rest_of_copy();
  return link::with_rank(incoming_.peer, [&] { return incoming_.link->recv_into(std::array{rest}); });
}

Bytes MessageExchange::rest_of_copy() {
  if (received_.size() < incoming_.bytes) received_.resize(incoming_.bytes);
  return std::span(received_).first(incoming_.bytes).subspan(incoming_.moved);
}

bool MessageExchange::receive() {
  const std::size_t before = incoming_.moved;
  if (before < incoming_.bytes) incoming_.moved += incoming_.link->peeks() ? receive_in_place() : receive_copy();
  // Also if the data behind it does not come: a peer in another operation may send less.
  if (!taken_ && before < kSignatureBytes && incoming_.moved >= kSignatureBytes)
    check_signature(signature_, received_, incoming_.peer, explain_);
  if (incoming_.moved == incoming_.bytes && !outgoing_.link) {
    if (!taken_) take(received_.data() + kSignatureBytes);
    incoming_.link = nullptr;
  }
  return incoming_.moved > before || !incoming_.link;
}

// Data that has come, as the plan wants it.
void MessageExchange::take(const std::byte* data) {
  const Bytes place = incoming_.data;
  if (mine_)
    combine_(place.data(), incoming_left_ ? data : mine_, incoming_left_ ? mine_ : data, elems_);
  else
    std::memcpy(place.data(), data, place.size());
  if (results_) results_->apply(place.data(), elems_);
}

bool MessageExchange::pass() {
  bool moved = send();
  if (incoming_.link) moved |= receive();
  if (outgoing_.link || incoming_.link || own_.empty()) return moved;
  if (own_.data() != own_from_) std::memcpy(own_.data(), own_from_, own_.size());
  own_ = {};
  return true;
}

}  // namespace anello::run
