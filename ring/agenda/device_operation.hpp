// Interfaces for named operations on tensors in GPU memory. The agenda decides which operations start, and in which
// order; the room above, which uses GPUs, carries them out.
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
  // Called once, when all ranks have submitted the operation, in the same order on all ranks. Does not block. `key`:
  // for example "allreduce 'loss'".
  virtual void start(const std::string& key) = 0;
  // Only after start(). `callback` is called once, on a thread of the carrier, when the operation is done or the
  // carrier is closed. False: the carrier is closed already, and `callback` is not called.
  virtual bool when_done(std::function<void()> callback) = 0;
  // Only after start(), by threads that use the operation's handle. wait() blocks, and returns true if the operation is
  // done.
  virtual bool done() = 0;
  virtual bool wait(group::Until until) = 0;
  virtual std::optional<Error> error() = 0;  // only once it is done
};

class DeviceCarrier {
 public:
  virtual ~DeviceCarrier() = default;
  // Makes an operation, which waits for the work that is queued on the request's stream so far. Borrows the tensors.
  // Throws Error{invalid_argument} for requests that this rank cannot carry out, Error{unsupported} and Error{device}.
  // Any thread.
  virtual std::shared_ptr<DeviceOperation> make(const NamedCall& request) = 0;
  // Makes the part of a rank that has joined: allocates the tensors, and fills them with neutral elements.
  virtual std::shared_ptr<DeviceOperation> make_neutral(const NamedCall& request) = 0;
  // Sets the GPU of this rank, if no tensor has chosen one. Throws Error{unsupported}.
  virtual void choose(int device) = 0;
  // Lets the operations that have not started fail. Blocks until those that have started are done or have failed.
  virtual void close() = 0;
};

}  // namespace anello::agenda
