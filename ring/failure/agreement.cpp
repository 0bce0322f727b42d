#include "ring/failure/agreement.hpp"

#include <algorithm>

#include "ring/failure/control_graph.hpp"

namespace anello::failure {

FailureAgreement::FailureAgreement(int rank, int size, Flood& flood)
    : rank_(rank), size_(size), flood_(flood), degree_(control_neighbours(rank, size).size()) {}

void FailureAgreement::exclude(int rank) {
  excluded_.insert(rank);
  choose_arbiter();
}

void FailureAgreement::died(int rank) {
  if (verdict_) return;
  if (dead_.insert(rank).second && dead_.size() >= degree_) connected_ = connected_with(rank_, size_, dead_);
  exclude(rank);
}

void FailureAgreement::choose_arbiter() {
  const auto cannot_be = [this](int rank) {
    return excluded_.contains(rank) || (!connected_.empty() && !connected_[std::size_t(rank)]);
  };
  while (arbiter_ < size_ && cannot_be(arbiter_)) arbiter_++;
}

void FailureAgreement::propose(const Verdict& verdict, Time now, Time limit) {
  const bool is_further_death = verdict.code == ErrorCode::rank_dead && !dead_.contains(verdict.culprit);
  if (verdict_ || (proposals_.contains(rank_) && !is_further_death)) return;
  if (verdict.code == ErrorCode::rank_left && proposals_.contains(verdict.culprit)) return;
  Verdict cut = verdict;
  cut.message.resize(std::min(cut.message.size(), ControlMessage::kMaxMessageBytes));
  flood_.send({.type = ControlMessage::Type::proposal, .verdict = cut});
  consider({rank_, flood_.newest()}, cut, now, limit);
}

void FailureAgreement::receive_proposal(const ControlMessageId& id, const Verdict& verdict, Time now) {
  consider(id, verdict, now, kArbiterLimit);
}

void FailureAgreement::receive_decision(const Verdict& verdict) {
  if (!verdict_) verdict_ = verdict;
}

void FailureAgreement::repeat() {
  if (verdict_)
    flood_.send({.type = ControlMessage::Type::decision, .verdict = *verdict_});
  else if (const auto own = proposals_.find(rank_); own != proposals_.end())
    flood_.send({.type = ControlMessage::Type::proposal, .verdict = own->second.verdict});
}

void FailureAgreement::consider(const ControlMessageId& id, const Verdict& verdict, Time now, Time limit) {
  if (verdict.culprit >= 0 && verdict.code == ErrorCode::rank_dead) died(verdict.culprit);
  if (verdict.culprit >= 0 && verdict.code == ErrorCode::rank_silent) exclude(verdict.culprit);
  const auto [known, is_first] = proposals_.try_emplace(id.origin, Proposal{id.number, verdict});
  if (!is_first && id.number < known->second.number) known->second = {id.number, verdict};
  decide_by_ = std::min(decide_by_.value_or(Time::max()), now + limit);
  if (arbiter() == rank_ && now >= decide_from_) decide(known->second.verdict);
}

void FailureAgreement::decide(const Verdict& verdict) {
  if (verdict_) return;
  verdict_ = verdict;
  flood_.send({.type = ControlMessage::Type::decision, .verdict = verdict});
}

void FailureAgreement::stood_still(Time now) {
  decide_from_ = now + Flood::kDeliveryLimit;
}

void FailureAgreement::tick(Time now) {
  if (const auto at = due(); at && *at <= now) decide(proposals_.begin()->second.verdict);
}

std::optional<FailureAgreement::Time> FailureAgreement::due() const {
  if (verdict_ || !decide_by_) return std::nullopt;
  return arbiter() == rank_ ? decide_from_ : std::max(*decide_by_, decide_from_);
}

}  // namespace anello::failure
