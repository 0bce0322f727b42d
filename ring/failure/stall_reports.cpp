#include "ring/failure/stall_reports.hpp"

#include <algorithm>
#include <utility>

namespace anello::failure {
namespace {

using State = StallAnswer::State;

constexpr std::uint64_t kMaxLookBack = 100;          // how many operations are searched for the rank's last call
constexpr StallReports::Time kTimeToCallAgain{300};  // a program whose call was refused gets this time to call again

std::string cut(std::string name, std::size_t max_bytes = ControlMessage::kMaxNameBytes) {
  name.resize(std::min(name.size(), max_bytes));
  return name;
}

}  // namespace

StallReports::StallReports(const LocalView& view, const Departures& departures, const MismatchDetector& operations,
                           Flood& flood)
    : view_(view), departures_(departures), operations_(operations), flood_(flood) {}

void StallReports::ask(const StallKey& key, const Signature& mine, Time now) {
  if (const LocalView::Group* group = view_.group(mine.group))
    pending_.push_back({key, view_.named(mine), now + spread(view_.rank(), group->members.size(), mine)});
}

void StallReports::refused(std::uint64_t group, Time now) {
  const LocalView::Group* its = view_.group(group);
  if (!its || !its->refusal) return;
  const StallKey key{group, its->refusal->sequence};
  const auto asks = [&](const Pending& pending) { return pending.key == key; };
  if (std::ranges::any_of(pending_, asks)) return;
  if (const auto call = operations_.said(group, key.sequence)) pending_.push_back({key, *call, now + kTimeToCallAgain});
}

void StallReports::say_refused(std::uint64_t group) {
  const LocalView::Group* its = view_.group(group);
  if (!its || !its->refusal || its->members.size() != 2) return;
  NamedSignature call;
  call.group = group;
  call.sequence = its->refusal->sequence;
  const auto [newest, is_new] = refused_here_.try_emplace(group, call.sequence);
  if (!is_new && std::exchange(newest->second, call.sequence) == call.sequence) return;
  flood_.send({.type = ControlMessage::Type::refused, .calls = {call}});
}

// A rank that does not have the group also records the refusal, because it may still make the group.
void StallReports::receive_refused(const NamedSignature& theirs, Time now) {
  if (refused_elsewhere_.size() >= kMaxRemembered) refused_elsewhere_.erase(refused_elsewhere_.begin());
  refused_elsewhere_[theirs.group] = theirs.sequence;
  ask_why(theirs.group, now);
}

void StallReports::waiting(const Signature& mine, Time now) {
  ask_why(mine.group, now);
}

void StallReports::ask_why(std::uint64_t group, Time now) {
  const auto waits = operations_.waits().find(group);
  const auto theirs = refused_elsewhere_.find(group);
  if (waits == operations_.waits().end() || theirs == refused_elsewhere_.end() ||
      theirs->second != waits->second.sequence)
    return;
  pending_.push_back({{group, theirs->second}, waits->second, now + kTimeToCallAgain});
  refused_elsewhere_.erase(theirs);
}

void StallReports::moving(const Signature& mine) {
  std::erase_if(pending_, [&](const Pending& pending) { return pending.operation == mine; });
  for (auto each = stalls_.lower_bound({mine.group, mine.sequence});
       each != stalls_.end() && each->first.group == mine.group && each->first.sequence == mine.sequence; ++each) {
    Stall& stall = each->second;
    stall.has_moved_here = stall.is_asked;
    stall.is_overdue_here = false;
    stall.is_done |= stall.is_asked_here;
  }
}

void StallReports::leave(std::uint64_t group) {
  std::erase_if(pending_, [&](const Pending& pending) { return pending.key.group == group; });
  refused_here_.erase(group);
  refused_elsewhere_.erase(group);
}

// Returns the key for this rank's question. Its attempt is usually the newest one, but the next one in two cases.
// First, this rank's operation has moved since the question. Second, an overdue stall was finished some time ago and
// the world goes on, so another rank's operation must have moved.
StallKey StallReports::newest_attempt(StallKey key, Time now) const {
  key.attempt = UINT32_MAX;
  auto newest = stalls_.upper_bound(key);
  key.attempt = 0;
  if (newest == stalls_.begin() || (--newest)->first < key) return key;
  const Stall& stall = newest->second;
  const bool is_old = stall.has_moved_here || (key.overdue && stall.is_done && stall.due < now);
  key.attempt = newest->first.attempt + is_old;
  return key;
}

// Sends the question, unless another rank has asked the same question since.
void StallReports::send(const Pending& pending, Time now) {
  const StallAnswer mine = as_asker(pending);
  const bool is_wanted = mine.state == State::refused || pending.operation.kind == Kind::transfer;
  if (pending.is_refusal() && !is_wanted) return;  // the program has repeated the call correctly
  const StallKey key = newest_attempt(pending.key, now);
  Stall& stall = stalls_[key];
  stall.is_overdue_here = key.overdue;
  if (stall.is_done) return finish(key, stall);
  if (stall.is_asked) return;
  const LocalView::Group& group = *view_.group(pending.operation.group);
  ControlMessage question{.type = ControlMessage::Type::stalled, .stall = key, .group_name = cut(group.name)};
  question.answer = mine;
  question.members = group.members;
  question.calls.push_back(pending.operation);
  begin(stall, question, now);
  stall.is_asked_here = true;
  flood_.send(std::move(question));
  add(key, stall, view_.rank(), mine);
}

StallAnswer StallReports::as_asker(const Pending& pending) const {
  if (!pending.is_refusal()) return {.state = State::waits};
  return own_answer(pending.operation, view_.group(pending.key.group)->members);
}

void StallReports::receive_question(const ControlMessage& question, Time now) {
  forget_oldest();
  Stall& stall = stalls_[question.stall];
  const bool is_new = !stall.is_asked;
  if (is_new) begin(stall, question, now);
  add(question.stall, stall, question.origin, question.answer);
  if (!is_new || std::ranges::find(stall.members, view_.rank()) == stall.members.end()) return;
  ControlMessage message{.type = ControlMessage::Type::answer, .stall = question.stall};
  message.answer = own_answer(question.calls.front(), stall.members);
  flood_.send(message);
  add(question.stall, stall, view_.rank(), message.answer);
}

void StallReports::receive_answer(const ControlMessage& answer) {
  forget_oldest();
  add(answer.stall, stalls_[answer.stall], answer.origin, answer.answer);
}

void StallReports::begin(Stall& stall, const ControlMessage& question, Time now) const {
  const NamedSignature& operation = question.calls.front();
  const LocalView::Group* group = view_.group(operation.group);
  stall.is_asked = true;
  stall.due = now + kAnswerLimit;
  stall.members = group ? group->members : question.members;
  stall.unanswered = std::size_t(std::ranges::count_if(stall.members, [&](int member) {
    return !has_left(member, operation.group) && !stall.findings.answers.contains(member);
  }));
  stall.findings.operation = operation;
  stall.findings.group = question.group_name;
  stall.findings.period = question.stall.period;
  if (operation.kind == Kind::transfer) stall.findings.pair = stall.members;
}

// A member that has left sends no answer, but all ranks have its goodbye.
bool StallReports::has_left(int member, std::uint64_t group) const {
  return departures_.has_left(member) || departures_.completed(member, group).has_value();
}

StallAnswer StallReports::own_answer(const Signature& operation, const std::vector<int>& members) const {
  if (!view_.group(operation.group)) return without_group(operation, members);
  const auto& waits = operations_.waits();
  const auto mine = waits.find(operation.group);
  if (mine != waits.end() && mine->second.sequence == operation.sequence) return {.state = State::waits};
  if (view_.operation(operation.group, operation.sequence)) return {.state = State::called};
  StallAnswer answer{.state = State::not_called};
  const std::uint64_t first = operation.sequence - std::min(operation.sequence, kMaxLookBack);
  for (std::uint64_t sequence = operation.sequence; sequence-- > first && !answer.last;)
    answer.last = view_.operation(operation.group, sequence);
  if (const auto& refusal = view_.group(operation.group)->refusal;
      refusal && mine == waits.end() && refusal->sequence >= first && refusal->sequence <= operation.sequence &&
      (!answer.last || answer.last->sequence < refusal->sequence))
    return {.state = State::refused, .reason = cut(refusal->reason, ControlMessage::kMaxReasonBytes)};
  if (!waits.empty()) say_where_it_waits(answer, mine != waits.end() ? mine->second : waits.begin()->second);
  return answer;
}

void StallReports::say_where_it_waits(StallAnswer& answer, const NamedSignature& operation) const {
  answer.waits_in = operation;
  answer.waits_in_group = cut(view_.group(operation.group)->name);
}

// Ranks make different groups if they list the members in different orders, or have made different numbers of groups.
// Each direction of a transfer has its own group, which the program did not make.
StallAnswer StallReports::without_group(const Signature& wanted, const std::vector<int>& members) const {
  StallAnswer answer{.state = State::no_group};
  for (const auto& [id, operation] : operations_.waits()) {
    const std::vector<int>& others = view_.group(id)->members;
    const bool may_be = wanted.kind != Kind::transfer && operation.kind != Kind::transfer;
    const bool are_the_same = may_be && std::ranges::is_permutation(others, members);
    if (are_the_same) answer.state = others == members ? State::other_group : State::other_order;
    if (are_the_same || !answer.waits_in) say_where_it_waits(answer, operation);
    if (are_the_same) break;
  }
  return answer;
}

void StallReports::add(const StallKey& key, Stall& stall, int rank, const StallAnswer& answer) {
  if (stall.is_done || !stall.findings.answers.try_emplace(rank, answer).second || !stall.is_asked) return;
  if (stall.unanswered > 0 && --stall.unanswered == 0) finish(key, stall);
}

void StallReports::finish(const StallKey& key, Stall& stall) {
  StallFindings& findings = stall.findings;
  if (!std::exchange(stall.is_done, true)) {
    for (const int member : stall.members)
      if (!findings.answers.contains(member) && !has_left(member, key.group)) findings.silent.push_back(member);
    std::ranges::sort(findings.silent);
    findings.is_complete = !stall.members.empty() && findings.silent.empty();
    const auto is_refused = [](const auto& each) { return each.second.state == State::refused; };
    const bool is_called_again = key.period.count() == 0 && std::ranges::none_of(findings.answers, is_refused);
    if (!key.overdue && !is_called_again) completed_.reports.push_back(describe(view_, findings));
  }
  if (key.overdue && stall.is_overdue_here && !completed_.overdue)
    completed_.overdue = {ErrorCode::timed_out, findings.culprit(),
                          describe(view_, findings) + " (ANELLO_OPERATION_LIMIT)"};
}

StallReports::Completed StallReports::take_completed() {
  return std::exchange(completed_, {});
}

// Stalls that are done are kept, so that no rank asks about them again. If there are too many, removes the oldest
// stall.
void StallReports::forget_oldest() {
  if (stalls_.size() < kMaxRemembered) return;
  auto oldest = stalls_.end();
  for (auto each = stalls_.begin(); each != stalls_.end(); ++each) {
    const bool is_open = each->second.is_asked && !each->second.is_done;
    if (!is_open && (oldest == stalls_.end() || each->second.due < oldest->second.due)) oldest = each;
  }
  if (oldest != stalls_.end()) stalls_.erase(oldest);
}

void StallReports::tick(Time now) {
  for (auto& [key, stall] : stalls_)
    if (stall.is_asked && !stall.is_done && stall.due <= now) finish(key, stall);
  std::vector<Pending> later;
  for (const Pending& pending : std::exchange(pending_, {}))
    if (pending.due > now)
      later.push_back(pending);
    else
      send(pending, now);
  pending_ = std::move(later);
}

std::optional<StallReports::Time> StallReports::due() const {
  std::optional<Time> first;
  for (const auto& [key, stall] : stalls_)
    if (stall.is_asked && !stall.is_done) first = std::min(first.value_or(stall.due), stall.due);
  for (const Pending& pending : pending_) first = std::min(first.value_or(pending.due), pending.due);
  return first;
}

}  // namespace anello::failure
