#include "rendezvous/join/pmi_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/protocol.hpp"
#include "ring/base/descriptor.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFinalizeLimit{1000};
constexpr long kMaxLength = 1 << 20;  // upper bound for the maximum lengths that managers state

// Returns the inode of an open socket; 0 for any other descriptor.
unsigned long socket_inode(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

// Runs `action`. After the first error, refuses every call, because the manager's next message could belong to the
// failed request.
template <class Action>
auto PmiClient::guarded(Action action) {
  if (!failure_.empty()) throw Error(ErrorCode::network, failure_);
  try {
    check_connection();
    return action();
  } catch (const Error& error) {
    failure_ = text(link_.manager, ": ", error.message());
    throw Error(error.code(), failure_);
  }
}

PmiClient::PmiClient(const PmiLink& link, milliseconds limit)
    : link_(link), limit_(limit), inode_(socket_inode(link.fd)) {
  if (inode_ == 0)
    throw Error(ErrorCode::unsupported,
                text(link.manager, ": descriptor ", link.fd, " is not an open socket, though PMI_FD ",
                     "names it: a program between the process manager and this one closed it"));
  guarded([&] {
    if (!link_.id.empty()) introduce();
    agree_on_version();
    ask_for_limits();
  });
}

// For a connection that this process has made (PMI_PORT). After its answer, the manager sends the values that otherwise
// are in the environment.
void PmiClient::introduce() {
  ask("cmd=initack pmiid=" + link_.id, "initack");
  const auto deadline = Clock::now() + limit_;
  for (bool complete = false; !complete;) {
    const PmiMessage message = expect(receive(deadline), "set");
    if (message.fields.contains("size")) link_.size = int(message.number("size", 1, kMaxRanks));
    if (message.fields.contains("rank")) link_.rank = int(message.number("rank", 0, kMaxRanks - 1));
    complete = message.fields.contains("debug");
  }
  if (link_.rank < 0 || link_.rank >= link_.size)
    throw Error(ErrorCode::protocol, text("rank ", link_.rank, " of ", link_.size, " processes"));
}

void PmiClient::agree_on_version() {
  const PmiMessage answer = ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init");
  if (answer.number("rc", INT_MIN, INT_MAX) != 0 || answer.number("pmi_version", 0, INT_MAX) != 1)
    throw Error(ErrorCode::protocol, "it does not support version 1 of PMI");
}

void PmiClient::ask_for_limits() {
  const PmiMessage limits = ask("cmd=get_maxes", "maxes");
  max_key_ = limits.number("keylen_max", 1, kMaxLength);
  max_value_ = limits.number("vallen_max", 1, kMaxLength);
  space_ = ask("cmd=get_my_kvsname", "my_kvsname").field("kvsname");
  if (!fits_pmi_message(space_) || space_.size() > kMaxNameBytes)
    throw Error(ErrorCode::protocol, text("invalid name of the key-value space: '", printable(space_, 64), "'"));
}

void PmiClient::put(const std::string& key, const std::string& value) {
  if (!fits_pmi_message(key) || !fits_pmi_message(value))
    throw Error(ErrorCode::invalid_argument, text("PMI cannot carry the value of key '", printable(key, 64), "'"));
  if (long(key.size()) >= max_key_ || long(value.size()) >= max_value_)  // the limits include the terminating 0
    throw Error(ErrorCode::unsupported,
                text(link_.manager, ": key '", key, "' or its value of ", value.size(),
                     " bytes is too long for PMI: the limits are ", max_key_, " and ", max_value_));
  guarded([&] {
    const PmiMessage answer = ask(text("cmd=put kvsname=", space_, " key=", key, " value=", value), "put_result");
    if (answer.number("rc", INT_MIN, INT_MAX) != 0)
      throw Error(ErrorCode::protocol, text("it refused key '", key, "'"));
  });
}

void PmiClient::barrier() {
  guarded([&] { ask("cmd=barrier_in", "barrier_out"); });
}

std::string PmiClient::get(const std::string& key) {
  const PmiMessage answer = guarded([&] { return ask(text("cmd=get kvsname=", space_, " key=", key), "get_result"); });
  if (answer.number("rc", INT_MIN, INT_MAX) != 0)
    throw Error(ErrorCode::protocol, text(link_.manager, ": no process of the job has put key '", key, "'"));
  return answer.field("value");
}

void PmiClient::finalize() noexcept {
  try {
    limit_ = std::min(limit_, kFinalizeLimit);
    guarded([&] { ask("cmd=finalize", "finalize_ack"); });
  } catch (const Error&) {
  }
}

void PmiClient::check_connection() const {
  if (socket_inode(link_.fd) != inode_)
    throw Error(ErrorCode::network, "the connection for PMI was closed in this process (MPI_Finalize does that)");
}

PmiMessage PmiClient::ask(const std::string& request, std::string_view answer) {
  if (!received_.empty()) throw Error(ErrorCode::protocol, "it sent a PMI message that was not asked for");
  const auto deadline = Clock::now() + limit_;
  send(request + "\n", deadline);
  return expect(receive(deadline), answer);
}

PmiMessage PmiClient::expect(const PmiMessage& message, std::string_view command) const {
  if (message.command == command) return message;
  throw Error(ErrorCode::protocol,
              text("it sent PMI message '", printable(message.command, 64), "' where '", command, "' was due"));
}

void PmiClient::send(std::string_view bytes, Clock::time_point deadline) {
  while (!bytes.empty()) {
    wait_for(POLLOUT, deadline);
    const ssize_t sent = ::send(link_.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EINTR && errno != EAGAIN) throw system_error("sending over PMI", ErrorCode::network);
    bytes.remove_prefix(std::size_t(std::max<ssize_t>(sent, 0)));
  }
}

// Leaves the socket in blocking mode, because MPI in this process may need that mode.
PmiMessage PmiClient::receive(Clock::time_point deadline) {
  for (;;) {
    if (const std::size_t end = received_.find('\n'); end != received_.npos) {
      const std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return parse_pmi_message(line);
    }
    if (received_.size() > kMaxPmiLineBytes) throw Error(ErrorCode::protocol, "it sent a PMI message without an end");
    wait_for(POLLIN, deadline);
    char bytes[1024];
    const ssize_t got = recv(link_.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0) throw Error(ErrorCode::network, "it closed the connection for PMI");
    if (got < 0 && errno != EINTR && errno != EAGAIN) throw system_error("receiving over PMI", ErrorCode::network);
    received_.append(bytes, std::size_t(std::max<ssize_t>(got, 0)));
  }
}

void PmiClient::wait_for(short event, Clock::time_point deadline) const {
  pollfd entry{link_.fd, event, 0};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    const int ready = poll(&entry, 1, int(std::clamp<long>(left.count(), 0, INT_MAX)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw system_error("waiting for PMI", ErrorCode::network);
    if (ready == 0)
      throw Error(ErrorCode::timed_out, text("no answer over PMI within ", seconds(limit_),
                                             "; a process of the job may have ended or may not call init()"));
  }
}

}  // namespace anello::rendezvous
