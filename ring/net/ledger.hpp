// What one group's operations have been: the last of them, and whether one is underway. Written by the thread that
// moves the group's data, read by the control plane and by whoever explains a mismatch. Any thread.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/net/wait.hpp"

namespace anello {

class Ledger {
 public:
  // `name` is for people: "group (0, 2)". The bell is rung when there is a verdict.
  // `members` are ranks in the world.
  Ledger(std::uint64_t group, std::string name, std::vector<int> members, std::shared_ptr<Bell> bell)
      : group_(group), name_(std::move(name)), members_(std::move(members)), bell_(std::move(bell)) {}

  std::uint64_t group() const { return group_; }
  const std::string& name() const { return name_; }
  const std::vector<int>& members() const { return members_; }
  Bell& bell() const { return *bell_; }

  // False if it can never be completed, since somebody has left.
  bool begin(const Signature& signature) {
    {
      const std::lock_guard lock(mutex_);
      last_[signature.sequence % kRemembered] = signature;
      newest_ = signature.sequence;
    }
    underway_ = true;
    return signature.sequence < ends_at_;
  }
  void end() { underway_ = false; }

  // One of the last operations.
  std::optional<Signature> begun(std::uint64_t sequence) const {
    const std::lock_guard lock(mutex_);
    const Signature& signature = last_[sequence % kRemembered];
    if (signature.generation == 0 || signature.sequence != sequence) return std::nullopt;  // generation 0 is none
    return signature;
  }

  // From now on operations of that number and above can never be completed. The one that is underway, if it is such.
  std::optional<Signature> ends_at(std::uint64_t sequence) {
    ends_at_ = sequence;
    if (!underway_) return std::nullopt;
    const std::lock_guard lock(mutex_);
    if (newest_ < sequence) return std::nullopt;
    return last_[newest_ % kRemembered];
  }

 private:
  static constexpr std::size_t kRemembered = 64;

  std::uint64_t group_;
  std::string name_;
  std::vector<int> members_;
  std::shared_ptr<Bell> bell_;
  std::atomic<bool> underway_ = false;
  std::atomic<std::uint64_t> ends_at_ = UINT64_MAX;
  mutable std::mutex mutex_;  // over what follows
  std::array<Signature, kRemembered> last_;
  std::uint64_t newest_ = 0;
};

}  // namespace anello
