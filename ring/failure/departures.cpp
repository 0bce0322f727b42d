#include "ring/failure/departures.hpp"

#include <algorithm>

#include "ring/base/text.hpp"

namespace anello::failure {

Departures::Departures(const LocalView& view, Flood& flood)
    : view_(view), flood_(flood), departures_(std::size_t(view.size())) {}

void Departures::leave(std::uint64_t group, std::uint64_t completed) {
  ControlMessage goodbye{
      .type = ControlMessage::Type::goodbye, .group = group, .completed = completed, .by_exception = by_exception_};
  for (std::uint64_t sequence = completed - std::min(completed, kLastSent); sequence < completed; sequence++)
    if (const auto operation = view_.operation(group, sequence)) goodbye.signatures.push_back(*operation);
  flood_.send(std::move(goodbye));
}

void Departures::receive_goodbye(const ControlMessage& goodbye, Time now) {
  departures_[std::size_t(goodbye.origin)][goodbye.group] = {goodbye.completed, goodbye.signatures,
                                                             goodbye.by_exception};
  if (goodbye.group != 0) return;
  for (const auto& [group, ignored] : view_.groups()) await_goodbye(goodbye.origin, group, now);
}

void Departures::joined(std::uint64_t group, Time now) {
  for (const int member : view_.group(group)->members)
    if (has_left(member)) await_goodbye(member, group, now);
}

void Departures::await_goodbye(int rank, std::uint64_t group, Time now) {
  if (view_.group(group)->contains(rank) && !completed(rank, group))
    missing_.push_back({rank, group, now + Flood::kDeliveryLimit});
}

std::optional<std::uint64_t> Departures::completed(int rank, std::uint64_t group) const {
  const auto& departures = departures_[std::size_t(rank)];
  if (const auto found = departures.find(group); found != departures.end()) return found->second.completed;
  return std::nullopt;
}

std::uint64_t Departures::ends_at(std::uint64_t group) const {
  std::uint64_t end = UINT64_MAX;
  for (int rank = 0; rank < view_.size(); rank++)
    if (rank != view_.rank()) end = std::min(end, completed(rank, group).value_or(UINT64_MAX));
  return end;
}

std::optional<Signature> Departures::last_called(int rank, std::uint64_t group, std::uint64_t sequence) const {
  const auto& departures = departures_[std::size_t(rank)];
  const auto found = departures.find(group);
  if (found == departures.end()) return std::nullopt;
  for (const Signature& operation : found->second.last)
    if (operation.sequence == sequence) return operation;
  return std::nullopt;
}

std::optional<Verdict> Departures::left_before(const Signature& mine) const {
  for (int rank = 0; rank < view_.size(); rank++)
    if (const auto after = completed(rank, mine.group); after && *after <= mine.sequence)
      return left(rank, mine.group, "calls " + describe(mine));
  return std::nullopt;
}

Verdict Departures::left(int rank, std::uint64_t group, std::string_view conflict) const {
  const LocalView::Group* known = view_.group(group);
  const std::string& name = (known ? known : view_.group(0))->name;
  const bool by_exception = departures_[std::size_t(rank)].at(group).by_exception;
  return {ErrorCode::rank_left, rank,
          text(view_.named(rank), " left ", name, " after ", *completed(rank, group), " operations",
               by_exception ? ", because of an exception that its own output may name" : "", ", but rank ",
               view_.rank(), " ", conflict)};
}

void Departures::tick(Time now) {
  std::erase_if(missing_, [&](const MissingGoodbye& each) {
    if (each.due > now) return false;
    departures_[std::size_t(each.rank)].try_emplace(each.group);
    return true;
  });
}

std::optional<Departures::Time> Departures::due() const {
  std::optional<Time> first;
  for (const MissingGoodbye& each : missing_) first = std::min(first.value_or(each.due), each.due);
  return first;
}

}  // namespace anello::failure
