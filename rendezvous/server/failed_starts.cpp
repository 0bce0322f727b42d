#include "rendezvous/server/failed_starts.hpp"

namespace anello::rendezvous {

const Failed* FailedStarts::reason_of(int rank) const {
  const auto found = reasons_.find(rank);
  return found == reasons_.end() ? nullptr : &found->second;
}

const Failed* FailedStarts::failure_for(const Join& late, Time now) {
  if (!kept_ || now - late.age > kept_->when) return nullptr;
  if (late.rank >= 0 && now < kept_->until && kept_->informed.insert(late.rank).second) {
    note(late.rank, kept_->why);
    return &kept_->why;
  }
  kept_.reset();
  return nullptr;
}

void FailedStarts::conclude(const Failed& why, int by) {
  conclusion_ = why;
  reasons_.emplace(by, why);
}

Reply FailedStarts::reply_to(int rank) {
  superseded_ |= !reasons_.emplace(rank, *conclusion_).second;
  if (superseded_) return ComeAgain{};
  return *conclusion_;
}

}  // namespace anello::rendezvous
