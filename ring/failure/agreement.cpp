#include "ring/failure/agreement.hpp"

#include <algorithm>

namespace anello::failure {

FailureAgreement::FailureAgreement(int rank, int size, Flood& flood) : rank_(rank), size_(size), flood_(flood) {}

int FailureAgreement::arbiter() const {
  for (int rank = 0; rank < size_; rank++)
    if (!excluded_.contains(rank)) return rank;
  return rank_;
}

void FailureAgreement::propose(const Verdict& verdict, Time now) {
  if (verdict_ || proposals_.contains(rank_)) return;
  Verdict cut = verdict;
  cut.message.resize(std::min(cut.message.size(), ControlMessage::kMaxMessageBytes));
  flood_.send({.type = ControlMessage::Type::proposal, .verdict = cut});
  consider(rank_, cut, now);
}

void FailureAgreement::receive_proposal(int origin, const Verdict& verdict, Time now) {
  consider(origin, verdict, now);
}

void FailureAgreement::receive_decision(const Verdict& verdict) {
  if (!verdict_) verdict_ = verdict;
}

void FailureAgreement::consider(int origin, const Verdict& verdict, Time now) {
  const bool is_gone = verdict.code == ErrorCode::rank_dead || verdict.code == ErrorCode::rank_silent;
  if (is_gone && verdict.culprit >= 0) exclude(verdict.culprit);
  proposals_.try_emplace(origin, verdict);
  if (!decide_by_) decide_by_ = now + kArbiterLimit;
  if (arbiter() == rank_) decide(verdict);
}

void FailureAgreement::decide(const Verdict& verdict) {
  if (verdict_) return;
  verdict_ = verdict;
  flood_.send({.type = ControlMessage::Type::decision, .verdict = verdict});
}

void FailureAgreement::tick(Time now) {
  if (!verdict_ && decide_by_ && *decide_by_ <= now) decide(proposals_.begin()->second);
}

std::optional<FailureAgreement::Time> FailureAgreement::due() const {
  return verdict_ ? std::nullopt : decide_by_;
}

}  // namespace anello::failure
