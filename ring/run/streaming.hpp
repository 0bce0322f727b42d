// Carries an operation of any size as streams of bytes over links: owns the execution of its plan, and the driver that
// moves it. A step may begin as soon as the first bytes that it needs have arrived.
#pragma once
#include "ring/run/driver.hpp"
#include "ring/run/execution.hpp"
#include "ring/run/link_carrier.hpp"

namespace anello::run {

class Streaming final : public LinkCarrier {
 public:
  explicit Streaming(Explain explain) : driver_(std::move(explain)) {}

  // Call before begin(); links may still be missing. Allocates all memory now, so that a rank without enough memory
  // fails before it waits for other ranks. Throws std::bad_alloc.
  void prepare(const Load& load);
  void begin(const Load& load) override;
  bool pass() override { return note_end(alone_ ? execution_.compute() : driver_.pass()); }
  bool send() override { return !alone_ && note_end(driver_.send()); }
  void each_wanted(const Want& want) const override {
    if (!alone_) driver_.each_wanted(want);
  }
  // Returns numbers of elements.
  std::pair<std::uint64_t, std::uint64_t> progress() const override { return execution_.progress(); }
  Moved moved() const override { return moved_by(execution_.plan(), wire_shift_); }

 private:
  bool note_end(bool moved) {
    if (execution_.done()) set(Status::done);
    return moved;
  }

  Execution execution_;
  Driver driver_;
  std::uint32_t wire_shift_ = 0;
  // True if the plan has no peers. Then no driver is used, because a driver would take longer than the operation.
  bool alone_ = false;
};

}  // namespace anello::run
