// Interfaces for named operations on tensors in GPU memory. The agenda decides which operations start, and in which
// order; the room gpu carries them out.
#pragma once
#include <anello/error.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ring/agenda/named_call.hpp"
#include "ring/group/baton.hpp"

namespace anello::agenda {

class DeviceOperation {
 public:
  virtual ~DeviceOperation() = default;
  // Called once, when all ranks have submitted the operation. Operations start in the same order on all ranks. Does not
  // block. `key`: for example "allreduce 'loss'".
  virtual void start(const std::string& key) = 0;
  // Call only after start(). Calls `callback` once, on a thread of the carrier, when the operation is done or the
  // carrier is closed. Returns false if the carrier is already closed; `callback` is then not called.
  virtual bool when_done(std::function<void()> callback) = 0;
  // Call these functions only after start(). They are for threads that use the operation's handle. wait() blocks, and
  // returns true if the operation is done.
  virtual bool done() = 0;
  virtual bool wait(group::Until until) = 0;
  virtual std::optional<Error> error() = 0;  // valid once the operation is done
};

class DeviceCarrier {
 public:
  virtual ~DeviceCarrier() = default;
  // Makes an operation from a call. The operation will wait for the work that is already queued on the call's stream.
  // Borrows the tensors. Throws Error{invalid_argument} if this rank cannot carry out the call, Error{unsupported} and
  // Error{device}. Any thread.
  virtual std::shared_ptr<DeviceOperation> make(const NamedCall& request) = 0;
  // Makes the contribution of a rank that has joined: allocates the tensors, and fills them with neutral elements.
  virtual std::shared_ptr<DeviceOperation> make_neutral(const NamedCall& request) = 0;
  // Sets the GPU of this rank if no tensor has determined it yet. Throws Error{unsupported}.
  virtual void choose(int device) = 0;
  // Fails the operations that have not started. Blocks until the started operations are done or have failed.
  virtual void close() = 0;
};

}  // namespace anello::agenda
