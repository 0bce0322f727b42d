// An NCCL communicator, and the thread that watches it. NCCL does not report a dead rank or a broken network in time,
// and its kernels wait for ever. So the watcher ends communicator, kernels and world, with the same error on every
// rank, in three cases: the world fails, NCCL reports an error, or an operation exceeds its limit. Only the watcher
// aborts, because an abort may block inside NCCL. If an abort does not return, the watcher's thread is abandoned. The
// watcher also reports stalled calls.
#pragma once
#include <anello/group.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "gpu/function_ref.hpp"
#include "gpu/nccl_table.h"
#include "gpu/queued_calls.hpp"

namespace anello::gpu {

// True if a status of NCCL's table means that NCCL refused the call. NCCL has accepted a call that is in progress.
inline bool failed(int status) {
  return status != 0 && status != ANELLO_NCCL_IN_PROGRESS;
}

class NcclCommunicator {
 public:
  struct Limits {
    std::chrono::milliseconds start{60000};  // limit for making the communicator
    std::chrono::milliseconds operation{0};  // see QueuedCalls; 0: no limit
    std::chrono::milliseconds end{5000};     // limit for finishing queued work at the end, and for an abort
  };
  // Queues work with the communicator, and returns a status of the table.
  using Call = FunctionRef<int(void* comm)>;
  enum class StartFailure { ends_world, is_thrown };

  // Collective: all ranks of the group construct this. Blocks until the communicator is made. If making it fails, the
  // world fails too, and the world's failure is thrown. With StartFailure::is_thrown the world goes on, and
  // Error{device} is thrown on this rank.
  NcclCommunicator(Group group, const Device& device, const AnelloNcclTable& table, const Limits& limits,
                   StartFailure start_failure = StartFailure::ends_world);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Makes a communicator of the ranks of `group`, which are a part of this communicator's ranks. Collective: all ranks
  // of this communicator call this, each with its own part. Blocks and throws like the constructor.
  std::unique_ptr<NcclCommunicator> split(Group group);

  // Blocks until `queue` has queued the call on the stream. Throws the world's failure, which names the call. If the
  // call is captured into a graph, it is neither recorded nor watched, and throws Error{unsupported} if there is a
  // limit.
  void run(const NcclCall& call, GpuStream stream, Call queue);

  // Registers memory on the device with NCCL; the table must have register_memory. Returns a function that ends the
  // registration. Call that function on the thread that uses the communicator; it does nothing if the communicator has
  // ended. Throws Error{device}; the world goes on.
  std::function<void()> register_memory(void* memory, std::size_t bytes);

  const AnelloNcclTable& table() const;
  // The number of communicators of this process whose abort has not returned, and which were therefore abandoned.
  static int left_behind();

 private:
  struct State;
  using Shared = std::shared_ptr<State>;
  explicit NcclCommunicator(Shared state) : state_(std::move(state)) {}

  // The current action, for error messages: words, or a call.
  struct Doing {
    std::string_view words;
    const NcclCall* call = nullptr;
    std::string text() const { return call ? call->describe() : std::string(words); }
  };

  void start(FunctionRef<int()> create, const Doing& what);
  int settle(int status, std::chrono::milliseconds limit);
  std::string why(int status, std::chrono::milliseconds limit) const;
  void require(int status, const Doing& what, std::chrono::milliseconds limit);
  int attempt(Call call, const Doing& what);
  void launch(const Doing& what, Call call, std::chrono::milliseconds limit = {});
  [[noreturn]] void fail(const Doing& what, const std::string& why);
  bool shut_down() noexcept;

  Shared state_;
  std::thread watcher_;
};

}  // namespace anello::gpu
