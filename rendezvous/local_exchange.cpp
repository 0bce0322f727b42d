#include "rendezvous/local_exchange.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "rendezvous/job_ports.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/handshake.hpp"
#include "ring/shm/fd_message.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAfterRefusal{10};  // another user may ask again and again
constexpr std::size_t kMaxBytes = net::kMaxJobBytes + net::kMaxSecretBytes + 256;

std::string socket_name(const std::string& job) {
  return text("anello-", geteuid(), "-", job_hash(job));
}

void require_own(const Descriptor& socket) {
  const uid_t user = shm::user_of(socket);
  if (user != geteuid())
    throw Error(ErrorCode::unauthorized, text("a process of user ", user, " is there, not one of user ", geteuid()));
}

// Waits until `fd` can be read; false after the deadline.
bool readable(int fd, steady_clock::time_point deadline) {
  pollfd entry{fd, POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    const int ready = poll(&entry, 1, int(std::max(left, milliseconds(0)).count()));
    if (ready >= 0 || errno != EINTR) return ready != 0;
  }
}

// Who has the name of this job's socket?
[[noreturn]] void refuse_taken(const std::string& job, const Error& error) {
  try {
    require_own(shm::connect_to(socket_name(job)));
  } catch (const Error& other) {
    throw Error(ErrorCode::configuration,
                text("the local socket of job '", job,
                     "' cannot be made: ", other.code() == ErrorCode::unauthorized ? other.message() : error.message(),
                     "; give the job another name (ANELLO_JOB)"));
  }
  throw second_of_a_job(job, "");
}

Descriptor listen_for(const std::string& job) try {
  return shm::listen_as(socket_name(job));
} catch (const Error& error) {
  refuse_taken(job, error);
}

}  // namespace

class LocalListener::Impl {
 public:
  Impl(const Invitation& invitation, std::function<bool()> open)
      : text_(encode(invitation)), open_(std::move(open)), listener_(listen_for(invitation.job)) {
    if (!stop_) throw system_error("making an event", ErrorCode::network);
    thread_ = quiet_thread([this] { serve(); });
  }
  ~Impl() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

 private:
  void serve() {
    pollfd entries[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    for (;;) {
      const int ready = poll(entries, 2, -1);
      if (ready > 0 && entries[1].revents) return;
      if (ready > 0) answer_one();
    }
  }

  // The whole answer fits the buffer of a new socket, so this does not block.
  void answer_one() try {
    const Descriptor socket = shm::accept_from(listener_);
    require_own(socket);
    if (open_()) send(socket.get(), text_.data(), text_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } catch (const Error& error) {
    const bool is_first = std::exchange(refused_, true) == false;
    log(is_first ? Severity::warning : Severity::debug,
        text("a process that asked for the job's secret was refused: ", error.what()));
    std::this_thread::sleep_for(kAfterRefusal);
  }

  const std::string text_;
  const std::function<bool()> open_;
  const Descriptor listener_;
  const Descriptor stop_{eventfd(0, EFD_CLOEXEC)};
  bool refused_ = false;
  std::thread thread_;
};

LocalListener::LocalListener(const Invitation& invitation, std::function<bool()> open)
    : impl_(std::make_unique<Impl>(invitation, std::move(open))) {}
LocalListener::~LocalListener() = default;

Invitation receive_local_invitation(const std::string& job, milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  const Descriptor socket = shm::connect_to(socket_name(job));
  require_own(socket);
  std::string bytes;
  char part[kMaxBytes];
  for (;;) {
    if (!readable(socket.get(), deadline))
      throw Error(ErrorCode::timed_out, text("no answer within ", limit.count(), " ms"));
    const ssize_t got = recv(socket.get(), part, sizeof part, MSG_DONTWAIT);
    if (got < 0 && errno != EINTR && errno != EAGAIN)
      throw system_error("receiving the job's secret", ErrorCode::network);
    if (got == 0) break;
    bytes.append(part, std::size_t(std::max<ssize_t>(got, 0)));
    if (bytes.size() > kMaxBytes) throw Error(ErrorCode::protocol, "the answer is too long");
  }
  if (bytes.empty()) throw Error(ErrorCode::network, "the connection was closed");
  Invitation out = decode_invitation(bytes);
  out.host = "127.0.0.1";
  return out;
}

Error second_of_a_job(const std::string& job, const std::string& where) {
  return {ErrorCode::configuration,
          text("a job of the same name ('", job, "') already starts on this host", where.empty() ? "" : ", ", where,
               ": two processes have rank 0, or each job needs an ANELLO_JOB or MASTER_PORT of its own")};
}

}  // namespace anello::rendezvous
