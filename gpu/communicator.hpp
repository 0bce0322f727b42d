// An NCCL communicator and the thread that watches it. NCCL reports neither a rank that died nor a network that broke
// in time, and its kernels wait for ever: here the world's failure, an error that NCCL found by itself and an operation
// that takes too long end all three, communicator, world and kernels, on every rank with the same error. To abort may
// block inside NCCL, so that is done on the watching thread, which is left behind if it does not come back.
//
// One thread at a time; the group's world outlives it.
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

class Communicator {
 public:
  struct Limits {
    std::chrono::milliseconds start{60000};  // of its own creation
    std::chrono::milliseconds operation{0};  // of what is queued, with what the stream had to do before; 0: none
    std::chrono::milliseconds launch{0};     // of queueing it, which may wait for peers to connect; 0: none
    std::chrono::milliseconds end{5000};     // of saying goodbye, and of an abort
  };
  // Queues something; returns a status of the table.
  using Call = std::function<int(void* comm)>;

  // All ranks of the group call. Blocks until it is there. Throws the world's failure, which it is if it does not come.
  Communicator(Group group, const Device& device, const AnelloNcclTable& table, const Limits& limits);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // That of the ranks of `group`, some of this one's. All ranks of this one call, each with the group that it is in.
  std::unique_ptr<Communicator> split(Group group);

  // Blocks until it is queued. Throws the world's failure with what was attempted.
  void run(const std::string& what, void* stream, const Call& call);

  const AnelloNcclTable& table() const;

 private:
  struct State;
  using Shared = std::shared_ptr<State>;
  explicit Communicator(Shared state) : state_(std::move(state)) {}

  void start(const std::function<int()>& create, const std::string& what);
  std::string poll(int status, std::chrono::milliseconds limit);
  void finish(int status, const std::string& what, std::chrono::milliseconds limit);
  int attempt(const Call& call, const std::string& what);
  void launch(const std::string& what, const Call& call);
  [[noreturn]] void fail(const std::string& what, const std::string& why);
  bool say_goodbye() noexcept;

  Shared state_;
  std::thread watcher_;
};

}  // namespace anello::gpu
