#include "rendezvous/launch/run/job_requests.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <cerrno>
#include <fstream>
#include <set>

#include "ring/base/text.hpp"
#include "ring/shm/fd_message.hpp"

namespace anello::launch {
namespace {

constexpr int kAnswerLimit = 10000;  // limit for the answer of the job's launcher, in ms
constexpr char kDone = '+', kRefused = '-';

std::string names_of_user() {
  return text("anello-job-", geteuid(), "-");
}

bool may_ask(const Descriptor& client) {
  const uid_t user = shm::user_of(client);
  return user == geteuid() || user == 0;
}

Descriptor connect_to_job(const std::string& job) try {
  return shm::connect_to(names_of_user() + job);
} catch (const Error&) {
  throw Error(ErrorCode::invalid_argument,
              text("no elastic job '", job, "' of this user runs on this host; `anello status` lists those that do"));
}

}  // namespace

JobRequests::JobRequests(const std::string& job, std::function<std::string(const std::string&)> answer)
    : answer_(std::move(answer)), listener_(shm::listen_as(names_of_user() + job)) {
  set_nonblocking(listener_);
}

void JobRequests::watch(PollSet& polls) {
  std::erase_if(clients_, [](const Client& client) { return !client.socket; });
  for (Client& client : clients_)
    polls.add(client.socket.get(), client.reply.empty() ? POLLIN : POLLOUT,
              [this, &client](short) { client.reply.empty() ? receive(client) : send_some(client); });
  // Comes last, because accepting a client moves the other clients in memory.
  polls.add(listener_.get(), POLLIN, [this](short) { accept(); });
}

void JobRequests::accept() try {
  Descriptor client = shm::accept_from(listener_);
  if (clients_.size() < kMaxClients && may_ask(client)) clients_.push_back({std::move(client)});
} catch (const Error&) {  // the client has gone
}

void JobRequests::receive(Client& client) {
  std::array<char, 256> bytes;
  const ssize_t got = recv(client.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got <= 0) return client.socket.close();
  try {
    client.reply = kDone + answer_(std::string(trimmed({bytes.data(), std::size_t(got)})));
  } catch (const Error& error) {
    client.reply = kRefused + error.message();
  }
  send_some(client);
}

// Closes the socket when the whole reply is sent, or the client has gone.
void JobRequests::send_some(Client& client) {
  const ssize_t sent = send(client.socket.get(), client.reply.data(), client.reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return client.socket.close();
  client.reply.erase(0, std::size_t(std::max<ssize_t>(sent, 0)));
  if (client.reply.empty()) client.socket.close();
}

std::vector<std::string> running_jobs() {
  std::ifstream table("/proc/net/unix");
  std::set<std::string> names;
  const std::string beginning = "@" + names_of_user();
  for (std::string line; std::getline(table, line);) {
    const std::string name = line.substr(std::min(line.rfind(' ') + 1, line.size()));
    if (name.starts_with(beginning)) names.insert(name.substr(beginning.size()));
  }
  return {names.begin(), names.end()};
}

std::string ask_job(const std::string& job, const std::string& request) {
  const Descriptor socket = connect_to_job(job);
  if (shm::user_of(socket) != geteuid())
    throw Error(ErrorCode::unauthorized, text("another user's process has the name of job ", job));
  if (send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) throw system_error("asking job " + job);
  std::string reply;
  for (;;) {
    pollfd entry{socket.get(), POLLIN, 0};
    const int ready = poll(&entry, 1, kAnswerLimit);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      throw Error(
          ErrorCode::timed_out,
          text("job ", job, " does not answer; if its launcher is stopped, it does what was asked when it continues"));
    std::array<char, 4096> bytes;
    const ssize_t got = recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    reply.append(bytes.data(), std::size_t(got));
  }
  if (reply.empty()) throw Error(ErrorCode::network, text("job ", job, " has ended"));
  if (reply.front() == kRefused) throw Error(ErrorCode::invalid_argument, reply.substr(1));
  return reply.substr(1);
}

}  // namespace anello::launch
