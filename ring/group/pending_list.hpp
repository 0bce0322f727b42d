// The operations of a queue that are not done, in order, and the numbers of submitted and of completed operations. Does
// not own the operations.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>

#include "ring/group/operation.hpp"

namespace anello::group {

class PendingList {
 public:
  Operation* head() const { return head_; }  // null if the list is empty
  bool empty() const { return !head_; }
  void push(Operation& pending) {
    submitted_++;
    pending.next = nullptr;
    (head_ ? tail_->next : head_) = &pending;
    tail_ = &pending;
  }
  void pop() {
    completed_ += !head_->error;
    head_ = head_->next;
    begun_ = false;
  }

  // Keeps a function for the time when the list is empty. Returns false, and keeps nothing, if the list is empty
  // already.
  bool when_empty(std::function<void()> callback) {
    if (empty()) return false;
    when_empty_ = std::move(callback);
    return true;
  }
  bool has_callback() const { return empty() && when_empty_; }  // true if the function must be called now
  std::function<void()> take_callback() { return std::exchange(when_empty_, nullptr); }

  // Records that the head has begun. Returns true if it had already begun.
  bool begin() { return std::exchange(begun_, true); }
  bool begun() const { return begun_; }

  std::uint64_t submitted() const { return submitted_; }
  std::uint64_t completed() const { return completed_; }  // number of operations that completed without an error
  void set_completed(std::uint64_t operations) { completed_ = operations; }
  std::uint64_t oldest() const { return head_ ? head_->signature.sequence : submitted_; }

 private:
  Operation *head_ = nullptr, *tail_ = nullptr;
  bool begun_ = false;
  std::function<void()> when_empty_;
  std::uint64_t submitted_ = 0, completed_ = 0;
};

}  // namespace anello::group
