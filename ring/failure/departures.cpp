#include "ring/failure/departures.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::failure {

Departures::Departures(const LocalView& view, Flood& flood) : view_(view), flood_(flood) {}

void Departures::leave(std::uint64_t group, std::uint64_t completed) {
  ControlMessage goodbye{
      .type = ControlMessage::Type::goodbye, .group = group, .completed = completed, .by_exception = by_exception_};
  for (std::uint64_t sequence = completed - std::min(completed, kLastSent); sequence < completed; sequence++)
    if (const auto operation = view_.operation(group, sequence)) goodbye.calls.push_back(*operation);
  const LocalView::Group* known = view_.group(group);
  goodbye.members_of_group = known ? std::uint32_t(known->members.size()) : 0;
  Group& its = groups_[group];
  its.own = true;
  its.members = goodbye.members_of_group;
  flood_.send(std::move(goodbye));
  forget_if_all_left(group);
}

void Departures::receive_goodbye(const ControlMessage& goodbye, Time now) {
  note(goodbye.origin, goodbye.group, goodbye.members_of_group,
       {goodbye.completed, goodbye.calls, goodbye.by_exception});
  if (goodbye.group != 0) return;
  for (const auto& [group, ignored] : view_.groups()) await_goodbye(goodbye.origin, group, now);
}

void Departures::note(int rank, std::uint64_t group, std::size_t members, Departure departure) {
  Group& its = groups_[group];
  its.ends_at = std::min(its.ends_at, departure.completed);
  its.members = std::max(its.members, members);
  its.left[rank] = std::move(departure);
  forget_if_all_left(group);
}

void Departures::forget_if_all_left(std::uint64_t group) {
  const auto found = groups_.find(group);
  const Group& its = found->second;
  if (group == 0 || its.members == 0 || its.left.size() + its.own < its.members) return;
  groups_.erase(found);
  forgotten_.push_back(group);
}

std::vector<std::uint64_t> Departures::take_forgotten() {
  return std::exchange(forgotten_, {});
}

void Departures::joined(std::uint64_t group, Time now) {
  for (const int member : view_.group(group)->members)
    if (has_left(member)) await_goodbye(member, group, now);
}

void Departures::await_goodbye(int rank, std::uint64_t group, Time now) {
  if (view_.group(group)->contains(rank) && !departure(rank, group))
    missing_.push_back({rank, group, now + Flood::kDeliveryLimit});
}

const Departures::Departure* Departures::departure(int rank, std::uint64_t group) const {
  const auto its = groups_.find(group);
  if (its == groups_.end()) return nullptr;
  const auto found = its->second.left.find(rank);
  return found == its->second.left.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> Departures::completed(int rank, std::uint64_t group) const {
  const Departure* its = departure(rank, group);
  return its ? std::optional(its->completed) : std::nullopt;
}

std::uint64_t Departures::ends_at(std::uint64_t group) const {
  const auto its = groups_.find(group);
  return its == groups_.end() ? UINT64_MAX : its->second.ends_at;
}

std::optional<NamedSignature> Departures::last_called(int rank, std::uint64_t group, std::uint64_t sequence) const {
  const Departure* its = departure(rank, group);
  if (!its) return std::nullopt;
  for (const NamedSignature& operation : its->last)
    if (operation.sequence == sequence) return operation;
  return std::nullopt;
}

std::vector<NamedSignature> Departures::last_calls(int rank, std::uint64_t group) const {
  const Departure* its = departure(rank, group);
  return its ? its->last : std::vector<NamedSignature>();
}

std::optional<Verdict> Departures::left_before(const Signature& mine) const {
  if (ends_at(mine.group) > mine.sequence) return std::nullopt;
  for (const auto& [rank, its] : groups_.at(mine.group).left)
    if (its.completed <= mine.sequence) return left(rank, mine.group, "calls " + describe(view_.named(mine)));
  return std::nullopt;
}

std::optional<Verdict> Departures::any_left(std::uint64_t group, std::uint64_t completed,
                                            std::string_view conflict) const {
  const auto its = groups_.find(group);
  if (its == groups_.end()) return std::nullopt;
  for (const auto& [rank, departure] : its->second.left)
    if (departure.completed <= completed) return left(rank, has_left(rank) ? 0 : group, "", conflict);
  return std::nullopt;
}

Verdict Departures::left(int rank, std::uint64_t group, std::string_view conflict) const {
  return left(rank, group, text(" after ", departure(rank, group)->completed, " operations"), conflict);
}

Verdict Departures::left(int rank, std::uint64_t group, std::string_view when, std::string_view conflict) const {
  const LocalView::Group* known = view_.group(group);
  const std::string& name = (known ? known : view_.group(0))->name;
  return {ErrorCode::rank_left, rank,
          text(view_.named(rank), " left ", name, when,
               departure(rank, group)->by_exception ? ", because of an exception that its own output may name" : "",
               ", but rank ", view_.rank(), " ", conflict)};
}

void Departures::tick(Time now) {
  std::erase_if(missing_, [&](const MissingGoodbye& each) {
    if (each.due > now) return false;
    if (view_.group(each.group) && !departure(each.rank, each.group)) note(each.rank, each.group, 0, {});
    return true;
  });
}

std::optional<Departures::Time> Departures::due() const {
  std::optional<Time> first;
  for (const MissingGoodbye& each : missing_) first = std::min(first.value_or(each.due), each.due);
  return first;
}

}  // namespace anello::failure
