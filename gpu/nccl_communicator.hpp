// An NCCL communicator and the thread that watches it. NCCL does not report a dead rank or a broken network in time,
// and its kernels wait forever. So the watcher ends communicator, kernels and world, on every rank with the same error,
// when the world fails, when NCCL reports an error, or when an operation exceeds its limit. An abort may block inside
// NCCL: the watcher makes it, and is left behind if it does not return.
//
// One thread at a time; the group's world must outlive it.
#pragma once
#include <anello/group.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gpu/device.hpp"
#include "gpu/nccl_table.h"

namespace anello::gpu {

class NcclCommunicator {
 public:
  struct Limits {
    std::chrono::milliseconds start{60000};  // for making the communicator
    std::chrono::milliseconds operation{0};  // for an operation and the work on the stream before it; 0: no limit
    std::chrono::milliseconds launch{0};     // for queueing one, which may wait for peers to connect; 0: no limit
    std::chrono::milliseconds end{5000};     // for finishing queued work at the end, and for an abort
  };
  // Queues work with the communicator; returns a status of the table.
  using Call = std::function<int(void* comm)>;

  // All ranks of the group call. Blocks until the communicator is made. If that fails, so does the world: throws its
  // failure.
  NcclCommunicator(Group group, const Device& device, const AnelloNcclTable& table, const Limits& limits);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Makes a communicator of the ranks of `group`, a part of this one. All ranks of this one call, each with its own
  // part. Blocks and throws as the constructor.
  std::unique_ptr<NcclCommunicator> split(Group group);

  // Blocks until `call` is queued on the stream. Throws the world's failure; `what` names the operation in errors.
  void run(const std::string& what, GpuStream stream, const Call& call);

  const AnelloNcclTable& table() const;

 private:
  struct State;
  using Shared = std::shared_ptr<State>;
  explicit NcclCommunicator(Shared state) : state_(std::move(state)) {}

  void start(const std::function<int()>& create, const std::string& what);
  std::string poll(int status, std::chrono::milliseconds limit);
  void finish(int status, const std::string& what, std::chrono::milliseconds limit);
  int attempt(const Call& call, const std::string& what);
  void launch(const std::string& what, const Call& call);
  [[noreturn]] void fail(const std::string& what, const std::string& why);
  bool shut_down() noexcept;

  Shared state_;
  std::thread watcher_;
};

}  // namespace anello::gpu
