#include "tests/rendezvous/fake_pmi.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ring/base/text.hpp"
#include "tests/support/pattern.hpp"

namespace anello {
namespace {

constexpr int kFirstInherited = 256;  // tests/support/process.cpp closes what is below

}  // namespace

FakePmi::FakePmi(Kind kind, int size) : kind_(kind), size_(size) {
  for (int rank = 0; rank < size; rank++) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw system_error("making a socket");
    processes_.emplace_back(fcntl(ends[0], F_DUPFD, kFirstInherited));
    close(ends[0]);
    peers_.push_back({.fd = Descriptor(ends[1]), .rank = rank});
  }
  listener_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof where;
  auto* const address = reinterpret_cast<sockaddr*>(&where);
  if (bind(listener_.get(), address, length) != 0 || listen(listener_.get(), 16) != 0 ||
      getsockname(listener_.get(), address, &length) != 0)
    throw system_error("listening");
  port_ = ntohs(where.sin_port);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw system_error("making a pipe");
  stopped_ = Descriptor(ends[0]), stop_ = Descriptor(ends[1]);
  thread_ = std::thread([this] { serve(); });
}

FakePmi::~FakePmi() {
  stop_.close();
  thread_.join();
}

std::vector<std::string> FakePmi::environment(int rank) const {
  std::vector<std::string> out = {text("PMI_FD=", fd(rank)), text("PMI_RANK=", rank), text("PMI_SIZE=", size_)};
  out.emplace_back(kind_ == Kind::hydra ? "HYDI_CONTROL_FD=7" : "SLURM_STEP_ID=0");
  return out;
}

std::vector<std::string> FakePmi::environment_with_port(int rank) const {
  return {text("PMI_PORT=127.0.0.1:", port_), text("PMI_ID=", rank), "HYDI_CONTROL_FD=7"};
}

void FakePmi::close_ends_of_processes() {
  for (Descriptor& process : processes_) process.close();
}

std::vector<std::string> FakePmi::complaints() {
  const std::lock_guard lock(mutex_);
  return complaints_;
}

int FakePmi::finalized() {
  const std::lock_guard lock(mutex_);
  return finalized_;
}

void FakePmi::serve() {
  for (;;) {
    std::vector<pollfd> entries = {{stopped_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Peer& peer : peers_) entries.push_back({peer.fd.get(), POLLIN, 0});  // poll() skips closed sockets
    poll(entries.data(), entries.size(), -1);
    const std::lock_guard lock(mutex_);
    if (entries[0].revents) return;
    for (std::size_t k = 2; k < entries.size(); k++)
      if (entries[k].revents) read_from(peers_[k - 2]);
    if (entries[1].revents) accept_one();
  }
}

void FakePmi::accept_one() {
  peers_.push_back({.fd = Descriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC))});
}

void FakePmi::read_from(Peer& peer) {
  char bytes[4096];
  const ssize_t got = recv(peer.fd.get(), bytes, sizeof bytes, 0);
  if (got <= 0) {
    if (peer.greeted && !peer.finalized) complain(peer, "ended without finalize");
    peer.fd.close();
    return;
  }
  peer.received.append(bytes, std::size_t(got));
  for (std::size_t end; peer.fd && (end = peer.received.find('\n')) != std::string::npos;) {
    const std::string line = peer.received.substr(0, end);
    peer.received.erase(0, end + 1);
    const std::string reply = answer(peer, line);
    if (peer.fd) send(peer.fd.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
    if (peer.finalized) peer.fd.close();
  }
}

std::string FakePmi::answer(Peer& peer, const std::string& line) {
  using pattern::match;
  const bool slurm = kind_ == Kind::slurm;
  if (const auto initack = match(line, "cmd=initack pmiid=([0-9]+)"); initack && peer.rank < 0) {
    peer.rank = std::stoi((*initack)[1]);
    return text("cmd=initack\ncmd=set size=", size_, "\ncmd=set rank=", peer.rank, "\ncmd=set debug=0\n");
  }
  if (peer.rank < 0) return complain(peer, "speaks before initack: " + line), "";
  if (line == "cmd=init pmi_version=1 pmi_subversion=1") {
    if (slurm && peer.greeted) return complain(peer, "invalid pmi1 command received: 'init'"), "";
    peer.greeted = true;
    return slurm ? "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
                 : "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n";
  }
  if (!peer.greeted) return complain(peer, "does not begin with init: " + line), "";
  const std::string rc = slurm ? " rc=0" : "";
  if (line == "cmd=get_maxes") return "cmd=maxes" + rc + " kvsname_max=256 keylen_max=64 vallen_max=1024\n";
  if (line == "cmd=get_my_kvsname") return "cmd=my_kvsname" + rc + " kvsname=kvs_7\n";
  if (line == "cmd=barrier_in") return enter_barrier(peer);
  if (line == "cmd=finalize") {
    peer.finalized = true;
    finalized_++;
    return "cmd=finalize_ack" + rc + "\n";
  }
  if (const auto put_line = match(line, "cmd=put kvsname=kvs_7 key=([^ =]{1,63}) value=([^ ]{1,1023})"))
    return put((*put_line)[1], (*put_line)[2]);
  if (const auto get_line = match(line, "cmd=get kvsname=kvs_7 key=([^ =]{1,63})")) {
    const auto value = values_.find((*get_line)[1]);
    if (value != values_.end()) return "cmd=get_result rc=0 value=" + value->second + "\n";
    return slurm ? "cmd=get_result rc=1\n" : text("cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  }
  return complain(peer, "unrecognized PMI command: " + line), "";
}

std::string FakePmi::put(const std::string& key, const std::string& value) {
  const bool is_new = !values_.contains(key) && put_.try_emplace(key, value).second;
  return is_new ? "cmd=put_result rc=0 msg=success\n" : "cmd=put_result rc=-1 msg=duplicate_key\n";
}

std::string FakePmi::enter_barrier(const Peer& peer) {
  waiting_.push_back(&peer);
  if (int(waiting_.size()) < size_) return "";
  values_.merge(put_);
  for (const Peer* other : waiting_) {
    const std::string out = kind_ == Kind::slurm ? "cmd=barrier_out rc=0\n" : "cmd=barrier_out\n";
    send(other->fd.get(), out.data(), out.size(), MSG_NOSIGNAL);
  }
  waiting_.clear();
  return "";
}

void FakePmi::complain(Peer& peer, const std::string& about) {
  complaints_.push_back(text("rank ", peer.rank, " ", about));
  if (kind_ == Kind::hydra || !peer.greeted) peer.fd.close();  // Slurm reports the mistake, and then answers nothing
}

}  // namespace anello
