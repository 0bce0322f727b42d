#include "rendezvous/join/local_exchange.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <thread>

#include "rendezvous/join/job_ports.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "rendezvous/protocol/retry.hpp"
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

// Time between two attempts to accept a connection while no descriptor is free, in ms.
constexpr int kBetweenTries = 20;
constexpr std::size_t kMaxBytes = net::kMaxJobBytes + net::kMaxSecretBytes + 256;

std::string socket_name(const std::string& place) {
  return text("anello-", geteuid(), "-", job_hash(place));
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
    Interruption::check();
    const milliseconds left = time_left(deadline);
    const int ready = poll(&entry, 1, int(Interruption::slice(left).count()));
    if (ready < 0 && errno != EINTR) throw system_error("waiting for the job's secret", ErrorCode::network);
    if (ready > 0 || left.count() == 0) return ready > 0;
  }
}

// Throws an error whose message says whether a process of another user has the name of this job's socket.
[[noreturn]] void refuse_taken(const std::string& place, const Error& error) {
  try {
    require_own(shm::connect_to(socket_name(place)));
  } catch (const Error& other) {
    throw Error(ErrorCode::configuration,
                text("the local socket of job '", place,
                     "' cannot be made: ", other.code() == ErrorCode::unauthorized ? other.message() : error.message(),
                     "; give the job another name (ANELLO_JOB)"));
  }
  throw NameTaken(ErrorCode::configuration,
                  text("a job of the same name ('", place,
                       "') already starts on this host: two processes have rank 0, or each job needs an ANELLO_JOB or "
                       "MASTER_PORT of its own"));
}

Descriptor listen_at(const std::string& place) try {
  return shm::listen_as(socket_name(place));
} catch (const Error& error) {
  refuse_taken(place, error);
}

}  // namespace

class LocalListener::Impl {
 public:
  Impl(const std::string& place, const Invitation& invitation, std::function<bool()> open)
      : text_(encode(invitation)), open_(std::move(open)), listener_(listen_at(place)) {
    if (!stop_) throw system_error("making an event", ErrorCode::network);
    thread_ = quiet_thread("giving the job's secret to other ranks", [this] { serve(); });
  }
  ~Impl() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }

 private:
  void serve() {
    pollfd entries[] = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    bool can_accept = true;
    for (;;) {
      const int ready = can_accept ? poll(entries, 2, -1) : poll(entries, 1, kBetweenTries);
      if (ready > 0 && entries[0].revents) return;
      try {
        can_accept = ready <= 0 || answer_one();
      } catch (const std::bad_alloc&) {
        can_accept = false;
      }
    }
  }

  // Returns false if no connection can be accepted at the moment. This function never waits for a peer, because other
  // users can make many connections. The whole answer fits into a new socket's buffer.
  bool answer_one() {
    try {
      const Descriptor socket = shm::accept_from(listener_);
      const uid_t user = shm::user_of(socket);
      if (user == geteuid() && open_()) send(socket.get(), text_.data(), text_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (user != geteuid())
        warn_once(text("a process of user ", user, " asked for the job's secret, and was refused"));
      return true;
    } catch (const Error& error) {
      warn_once(text("ranks that ask for the job's secret must wait: ", error.what()));
      return false;
    }
  }

  void warn_once(const std::string& why) {
    log(std::exchange(warned_, true) ? Severity::debug : Severity::warning, why);
  }

  const std::string text_;
  const std::function<bool()> open_;
  const Descriptor listener_;
  const Descriptor stop_{eventfd(0, EFD_CLOEXEC)};
  bool warned_ = false;
  std::thread thread_;
};

LocalListener::LocalListener(const std::string& place, const Invitation& invitation, std::function<bool()> open)
    : impl_(std::make_unique<Impl>(place, invitation, std::move(open))) {}
LocalListener::~LocalListener() = default;

Invitation receive_local_invitation(const std::string& place, milliseconds limit) {
  const auto deadline = steady_clock::now() + limit;
  const Descriptor socket = shm::connect_to(socket_name(place));
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

}  // namespace anello::rendezvous
