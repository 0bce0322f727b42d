// Named operations on tensors in GPU memory, as the agenda sees them: it decides which operations start, and in which
// order; the room above, which knows GPUs, carries them out.
#pragma once
#include <anello/error.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ring/agenda/request.hpp"
#include "ring/group/baton.hpp"

namespace anello::agenda {

class DeviceOperation {
 public:
  virtual ~DeviceOperation() = default;
  // Called once, when all ranks have submitted the operation, in the same order on all ranks. Does not block. `key`:
  // "allreduce 'loss'".
  virtual void start(const std::string& key) = 0;
  // After start(). Has `callback` called once, by a thread of the carrier, when the operation is done or the carrier is
  // closed. False: it is closed, and nothing is called.
  virtual bool when_done(std::function<void()> callback) = 0;
  // After start(), by the threads of the operation's handle: wait() blocks; true if it is done.
  virtual bool done() = 0;
  virtual bool wait(group::Until until) = 0;
  virtual std::optional<Error> error() = 0;  // once it is done
};

class DeviceCarrier {
 public:
  virtual ~DeviceCarrier() = default;
  // The operation waits for the work that is queued on the request's stream so far. Borrows the tensors. Throws
  // Error{invalid_argument} for what this rank cannot carry out, Error{unsupported} and Error{device}. Any thread.
  virtual std::shared_ptr<DeviceOperation> make(const Request& request) = 0;
  // The part of a rank that has joined: its tensors have no memory yet, and get neutral elements.
  virtual std::shared_ptr<DeviceOperation> make_neutral(const Request& request) = 0;
  // The GPU of this rank, if no tensor has chosen one. Throws Error{unsupported}.
  virtual void choose(int device) = 0;
  // Operations that have not started fail. Blocks until one that has started is done or has failed.
  virtual void close() = 0;
};

}  // namespace anello::agenda
