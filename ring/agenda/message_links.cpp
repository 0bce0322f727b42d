#include "ring/agenda/message_links.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <span>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/link/with_rank.hpp"

namespace anello::agenda {
namespace {

constexpr std::size_t kLengthBytes = 4, kMaxMessageBytes = 1 << 30;

// Moves the first complete message of `bytes`, from `at` on, to `message`, and moves `at` to its end. False if no
// message is complete.
bool take_message(const std::string& bytes, std::size_t& at, std::string& message) {
  if (bytes.size() - at < kLengthBytes) return false;
  const std::size_t length = Reader("agenda", std::string_view(bytes).substr(at, kLengthBytes)).u32();
  if (length > kMaxMessageBytes) throw Error(ErrorCode::protocol, text("agenda message: a length of ", length));
  if (bytes.size() - at - kLengthBytes < length) return false;
  message = bytes.substr(at + kLengthBytes, length);
  at += kLengthBytes + length;
  return true;
}

}  // namespace

MessageLinks::MessageLinks(std::shared_ptr<net::DataLinks> links, const std::vector<int>& neighbours,
                           const std::vector<int>& members)
    : links_(std::move(links)) {
  for (const int rank : neighbours)
    neighbours_.push_back({.rank = rank, .world_rank = members[std::size_t(rank)], .out = {}, .in = {}});
}

MessageLinks::Neighbour& MessageLinks::find(int rank) {
  return *std::ranges::find(neighbours_, rank, &Neighbour::rank);
}

void MessageLinks::queue(Agenda& agenda) {
  if (!agenda.has_to_say()) return;
  for (const Neighbour& each : neighbours_)
    if (std::string message = agenda.say(each.rank); !message.empty()) send(each.rank, std::move(message));
}

bool MessageLinks::send(Agenda& agenda) {
  queue(agenda);
  return send_some();
}

bool MessageLinks::receive(Agenda& agenda) {
  bool moved = false;
  std::vector<std::string> messages;
  for (const Neighbour& each : neighbours_) {
    moved |= receive_some(each.rank, messages);
    for (const std::string& message : messages) agenda.receive(each.rank, message);
    messages.clear();
  }
  return moved;
}

void MessageLinks::send(int neighbour, std::string message) {
  find(neighbour).out += Writer().str(message).bytes();
}

bool MessageLinks::sending() const {
  return std::ranges::any_of(neighbours_, [](const Neighbour& each) { return !each.out.empty(); });
}

void MessageLinks::drop(int neighbour) {
  find(neighbour).out.clear();
  find(neighbour).sent = 0;
}

bool MessageLinks::send_some() {
  bool moved = false;
  for (Neighbour& each : neighbours_) {
    if (each.out.empty()) continue;
    link::Link* const its = link(each);
    if (!its) continue;
    const ConstBytes left = std::as_bytes(std::span(each.out)).subspan(each.sent);
    const std::size_t bytes = link::with_rank(each.world_rank, [&] { return its->send_from({&left, 1}); });
    each.sent += bytes;
    moved |= bytes > 0;
    if (each.sent < each.out.size()) continue;
    each.out.clear();
    each.sent = 0;
  }
  return moved;
}

bool MessageLinks::receive_some(int neighbour, std::vector<std::string>& messages) {
  Neighbour& each = find(neighbour);
  link::Link* const its = link(each);
  if (!its) return false;
  const Bytes room(buffer_);
  const std::size_t bytes = link::with_rank(each.world_rank, [&] { return its->recv_into({&room, 1}); });
  each.in.append(reinterpret_cast<const char*>(buffer_.data()), bytes);
  std::size_t at = 0;
  link::with_rank(each.world_rank, [&] {
    for (std::string message; take_message(each.in, at, message);) messages.push_back(std::move(message));
  });
  each.in.erase(0, at);
  return bytes > 0;
}

bool MessageLinks::want(link::Waiter& waiter, bool receives) {
  bool may = true;
  for (const Neighbour& each : neighbours_) {
    link::Link* const its = link(each);
    if (!its) continue;  // there is no link yet; the bell rings when the link is made
    if (receives) may &= its->want(link::Wanted::bytes, waiter);
    if (!each.out.empty()) may &= its->want(link::Wanted::room, waiter);
  }
  return may;
}

}  // namespace anello::agenda
