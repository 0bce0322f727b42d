// A carrier is one of the ways to move an operation's data: as streams over links (streaming.hpp), as whole short
// messages over links (message_execution.hpp), directly between the ranks' tensors (ring/group/direct_collective.hpp),
// or through memory that all ranks read (ring/group/staged_allreduce.hpp). A carrier is used for many operations, one
// at a time, by one thread at a time. Only give_up() may block.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ring/base/signature.hpp"
#include "ring/link/link.hpp"
#include "ring/plan/plan.hpp"
#include "ring/run/arithmetic.hpp"
#include "ring/run/buffer.hpp"

namespace anello::run {

class StepTrace;

// An operation in the form for a carrier. Borrows everything to which it points, until the operation is done or given
// up.
struct Load {
  const plan::Plan* plan = nullptr;
  const Arithmetic* arithmetic = nullptr;
  const Buffer *input = nullptr, *output = nullptr;
  std::optional<Scaling> result_scaling, input_scaling;  // inputs are only multiplied
  const Signature* signature = nullptr;
  std::span<link::Link* const> links;  // by rank; the links that the carrier needs are open
  StepTrace* trace = nullptr;          // null: the timeline is off

  const Scaling* results() const { return result_scaling ? &*result_scaling : nullptr; }
  const Scaling* inputs() const { return input_scaling ? &*input_scaling : nullptr; }
};

class Carrier {
 public:
  // Begins an operation. Throws std::bad_alloc.
  virtual void begin(const Load& load) = 0;
  // Does everything that can be done at once. Returns true if it did anything. Throws Error{network, protocol} with the
  // peer's rank in the group. If a peer is in another operation, throws the error that names both operations.
  virtual bool pass() = 0;
  // The first part of a pass: sends everything that can be sent now.
  virtual bool send() = 0;

  bool done() const { return status_ == Status::done; }
  // True if the ranks have agreed not to use this carrier for this operation. Then nothing has moved.
  bool refused() const { return status_ == Status::refused; }

  // Call before sleeping. Adds to the waiter the events for which the next pass waits. Returns false if the next pass
  // can already do something.
  virtual bool want(link::Waiter& waiter) = 0;
  virtual std::vector<int> awaited() const = 0;  // the peers for which the next pass waits
  // True if the operation may go on when the world has failed, as long as pass() moves something.
  virtual bool goes_on_after_failure() const { return true; }

  // Returns the amount of work that is done, and the total, in units of the carrier's choice.
  virtual std::pair<std::uint64_t, std::uint64_t> progress() const = 0;
  struct Moved {
    std::uint64_t sent_bytes = 0, received_bytes = 0;
  };
  virtual Moved moved() const = 0;  // data moved by this rank's part of the operation, once the operation is done

  // Call when the operation has failed. The caller may change its tensors afterwards, so peers are kept from using
  // them.
  virtual void give_up() = 0;

 protected:
  ~Carrier() = default;  // protected, so that no carrier is destroyed through a pointer to this class
  enum class Status { moving, done, refused };
  void set(Status status) { status_ = status; }

 private:
  Status status_ = Status::done;
};

}  // namespace anello::run
