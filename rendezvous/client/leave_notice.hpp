// Receives SIGTERM or SIGUSR1 in a process of an elastic job: the notice of a scheduler that it will kill the process.
// The process then asks to leave at the next commit, and goes on until then. A second signal of either kind, or a
// signal that `anello run` sends to all ranks, ends the process at once. If the program handles or ignores a signal
// itself, or uses it for the flight recorder, nothing is changed. Only one object in a process receives the notice.
#pragma once
#include <anello/settings.hpp>
#include <asio/io_context.hpp>
#include <atomic>
#include <functional>
#include <memory>

namespace anello::rendezvous {

class LeaveNotice {
 public:
  explicit LeaveNotice(const Settings& settings);
  ~LeaveNotice();  // the signals have their usual effect again
  LeaveNotice(const LeaveNotice&) = delete;
  LeaveNotice& operator=(const LeaveNotice&) = delete;

  // Calls `leave` on the thread of `context` when the notice comes, or soon if the notice has come already. If this
  // function was called before, the context of the earlier call must not run any more.
  void receive(asio::io_context& context, std::function<void()> leave);

 private:
  class Receiver;
  int end_ = -1;  // the receivers' end of the pipe from the handler; -1: another object receives the notice
  const std::shared_ptr<std::atomic<bool>> has_come_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace anello::rendezvous
