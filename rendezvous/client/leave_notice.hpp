// SIGTERM or SIGUSR1 in a process of an elastic job: the notice of a scheduler that the process will be killed. The
// process then asks to leave at the next commit, and goes on until then. The same signal ends it at once if it comes
// again, or if `anello run` sends it to all ranks. If the program handles or ignores a signal itself, nothing is
// changed. Only one object in a process receives the notice.
#pragma once
#include <asio/io_context.hpp>
#include <functional>
#include <memory>

namespace anello::rendezvous {

class LeaveNotice {
 public:
  // `leave` is called on the thread of `context`, which must not run any more when this object is destroyed on another
  // thread, or must outlive it.
  LeaveNotice(asio::io_context& context, std::function<void()> leave);
  ~LeaveNotice();  // the signals have their usual effect again
  LeaveNotice(const LeaveNotice&) = delete;
  LeaveNotice& operator=(const LeaveNotice&) = delete;

 private:
  class Receiver;
  std::shared_ptr<Receiver> receiver_;  // none: another object receives the notice
};

}  // namespace anello::rendezvous
