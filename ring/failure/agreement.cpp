#include "ring/failure/agreement.hpp"

#include <algorithm>

namespace anello::failure {

FailureAgreement::FailureAgreement(int rank, int size, Flood& flood) : rank_(rank), size_(size), flood_(flood) {}

int FailureAgreement::arbiter() const {
  for (int rank = 0; rank < size_; rank++)
    if (!excluded_.contains(rank)) return rank;
  return rank_;
}

void FailureAgreement::propose(const Verdict& verdict, Time now, Time limit) {
  if (verdict_ || proposals_.contains(rank_)) return;
  if (verdict.code == ErrorCode::rank_left && proposals_.contains(verdict.culprit)) return;
  Verdict cut = verdict;
  cut.message.resize(std::min(cut.message.size(), ControlMessage::kMaxMessageBytes));
  flood_.send({.type = ControlMessage::Type::proposal, .verdict = cut});
  consider(rank_, cut, now, limit);
}

void FailureAgreement::receive_proposal(int origin, const Verdict& verdict, Time now) {
  consider(origin, verdict, now, kArbiterLimit);
}

void FailureAgreement::receive_decision(const Verdict& verdict) {
  if (!verdict_) verdict_ = verdict;
}

void FailureAgreement::repeat() {
  if (verdict_)
    flood_.send({.type = ControlMessage::Type::decision, .verdict = *verdict_});
  else if (const auto own = proposals_.find(rank_); own != proposals_.end())
    flood_.send({.type = ControlMessage::Type::proposal, .verdict = own->second});
}

void FailureAgreement::consider(int origin, const Verdict& verdict, Time now, Time limit) {
  const bool is_gone = verdict.code == ErrorCode::rank_dead || verdict.code == ErrorCode::rank_silent;
  if (is_gone && verdict.culprit >= 0) exclude(verdict.culprit);
  proposals_.try_emplace(origin, verdict);
  decide_by_ = std::min(decide_by_.value_or(Time::max()), now + limit);
  if (arbiter() == rank_ && now >= decide_from_) decide(verdict);
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
  if (const auto at = due(); at && *at <= now) decide(proposals_.begin()->second);
}

std::optional<FailureAgreement::Time> FailureAgreement::due() const {
  if (verdict_ || !decide_by_) return std::nullopt;
  return arbiter() == rank_ ? decide_from_ : std::max(*decide_by_, decide_from_);
}

}  // namespace anello::failure
