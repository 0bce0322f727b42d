#include "rendezvous/client/leave_notice.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string_view>
#include <utility>

#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

// The handler's end of the pipe to the receiver; -1: no object receives the notice. The process that has installed the
// handler. A child that it forks has the handler too, but must end as usual.
std::atomic<int> notice_pipe{-1};
std::atomic<pid_t> notice_process{0};

// The signals of schedulers; Slurm's --signal=USR1@60 sends the second one.
constexpr std::array kNotices = {SIGTERM, SIGUSR1};

struct Received {
  int signal = 0;
  pid_t sender = 0;
};

// SA_RESETHAND has restored the default, so the same signal ends the process if it comes again.
void note_signal(int signal, siginfo_t* info, void*) {
  const int before = errno;
  const Received received{signal, info->si_pid};
  const int pipe = notice_pipe;
  if (getpid() != notice_process || pipe < 0 || write(pipe, &received, sizeof received) != ssize_t(sizeof received))
    raise(signal);  // the signal takes effect when the handler has returned
  errno = before;
}

// The keeper of `anello run` has this name, also in other containers and users.
bool is_keeper(pid_t process) {
  std::ifstream file(text("/proc/", process, "/comm"));
  std::string name;
  return std::getline(file, name) && name == "keeper";
}

// `other_use`: the name of a signal that will have another handler, such as "USR1".
void install_handlers(std::string_view other_use) {
  for (const int signal : kNotices) {
    if (sigabbrev_np(signal) == other_use) continue;
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_DFL) continue;  // the program handles or ignores it
    action.sa_sigaction = note_signal;
    action.sa_flags = int(SA_SIGINFO | SA_RESETHAND | SA_RESTART);
    sigaction(signal, &action, nullptr);
  }
}

void remove_handlers() {
  for (const int signal : kNotices) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if ((action.sa_flags & SA_SIGINFO) && action.sa_sigaction == note_signal) std::signal(signal, SIG_DFL);
  }
}

}  // namespace

class LeaveNotice::Receiver : public std::enable_shared_from_this<Receiver> {
 public:
  Receiver(asio::io_context& context, int end, std::shared_ptr<std::atomic<bool>> has_come, std::function<void()> leave)
      : end_(context, end), has_come_(std::move(has_come)), leave_(std::move(leave)) {}

  void receive() {
    end_.async_read_some(asio::buffer(&received_, sizeof received_),
                         [self = shared_from_this()](asio::error_code failed, std::size_t) {
                           if (!failed) self->take();
                         });
  }

 private:
  void take() {
    const bool again = has_come_->exchange(true);
    if (again || is_keeper(received_.sender)) return void(kill(getpid(), received_.signal));
    log(Severity::warning,
        text("SIG", sigabbrev_np(received_.signal),
             " asks this process to leave its job, so it leaves at the next commit; a second one ends it at once"));
    leave_();
    receive();
  }

  asio::posix::stream_descriptor end_;
  Received received_;
  const std::shared_ptr<std::atomic<bool>> has_come_;
  const std::function<void()> leave_;
};

LeaveNotice::LeaveNotice(const Settings& settings) {
  std::array<int, 2> ends{};
  if (notice_pipe >= 0 || pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  int none = -1;
  if (!notice_pipe.compare_exchange_strong(none, ends[1])) {
    for (const int end : ends) close(end);
    return;
  }
  end_ = ends[0];
  notice_process = getpid();
  install_handlers(settings.flight_signal);
}

LeaveNotice::~LeaveNotice() {
  if (end_ < 0) return;
  remove_handlers();
  close(notice_pipe.exchange(-1));  // a receiver then ends with an error
  close(end_);
}

void LeaveNotice::receive(asio::io_context& context, std::function<void()> leave) {
  if (end_ < 0) return;
  const int end = fcntl(end_, F_DUPFD_CLOEXEC, 0);
  if (end < 0) return remove_handlers();  // without a receiver, the signals must have their usual effect
  if (*has_come_) asio::post(context, leave);
  std::make_shared<Receiver>(context, end, has_come_, std::move(leave))->receive();
}

}  // namespace anello::rendezvous
