#include "rendezvous/launch/job/master.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <asio/error.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>

#include "rendezvous/join/job_ports.hpp"
#include "rendezvous/launch/job/port_owner.hpp"
#include "rendezvous/protocol/host.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/net/sockets.hpp"

namespace anello::launch {
namespace {

using asio::ip::tcp;

// Tries to listen at the port, and returns the error. With `shared`, a port that only ended connections still use
// counts as free, as for most servers (SO_REUSEADDR).
asio::error_code why_not_free(std::uint16_t port, bool shared) {
  asio::io_context context;
  tcp::acceptor acceptor(context);
  const tcp::endpoint where(asio::ip::make_address(net::any_address()), port);
  asio::error_code error, ignored;
  net::open_socket(acceptor, where.protocol(), error);
  acceptor.set_option(tcp::acceptor::reuse_address(shared), ignored);
  if (where.protocol() == tcp::v6()) acceptor.set_option(asio::ip::v6_only(false), ignored);
  if (!error) acceptor.bind(where, error);
  if (!error) acceptor.listen(1, error);
  return error;
}

net::PortRange master_ports() {
  const std::string range = Settings::from_environment().port_range;
  return range.empty() ? rendezvous::kUsualPorts : net::parse_port_range(range);
}

// Returns how many free ports of the range the ranks need. Without ANELLO_PORT_RANGE they do not listen in this range.
int ports_left_to_ranks(int ranks) {
  return Settings::from_environment().port_range.empty() ? 0 : ranks;
}

std::string free_port(const Job& job) {
  const net::PortRange ports = master_ports();
  const int ranks = ports_left_to_ranks(job.layout.front().count);
  for (const bool shared : {false, true})
    if (const auto port =
            choose_master_port(job.name, ports, ranks, [&](auto one) { return !why_not_free(one, shared); }))
      return std::to_string(*port);
  throw Error(ErrorCode::network, text("no port from ", ports.first, " to ", ports.last, " is free for MASTER_PORT; ",
                                       "set ANELLO_PORT_RANGE, or -x MASTER_PORT=PORT"));
}

}  // namespace

Master given_master(const std::vector<std::string>& exported) {
  const auto value_of = [&](const char* name) -> std::string {
    if (std::ranges::find(exported, name) == exported.end()) return {};
    if (const auto value = environment(name)) return *value;
    throw Error(ErrorCode::configuration, text("-x ", name, ": its value is empty"));
  };
  Master out{value_of("MASTER_ADDR"), value_of("MASTER_PORT")};
  if (!out.port.empty()) parse_number("-x MASTER_PORT", out.port, 1, 65535);
  return out;
}

Master find_master(const Job& job, const std::string& reached_at) {
  Master out = job.master;
  if (out.address.empty())
    out.address = net::is_loopback(reached_at)
                      ? reached_at
                      : net::choose_address(Settings::from_environment().iface, reached_at, net::local_interfaces());
  if (out.port.empty()) out.port = free_port(job);
  return out;
}

Master agreed_master(const Job& job) {
  Master out = job.master;
  const net::HostPort rendezvous = net::parse_host_port("--rendezvous", job.rendezvous);
  if (out.address.empty()) out.address = rendezvous.host;
  if (!out.port.empty()) return out;
  const auto port = choose_master_port(job.name, master_ports(), ports_left_to_ranks(job.layout.front().count),
                                       [&](std::uint16_t one) { return one != rendezvous.port; });
  if (!port) throw Error(ErrorCode::configuration, "ANELLO_PORT_RANGE has no port for MASTER_PORT beside --rendezvous");
  out.port = std::to_string(*port);
  return out;
}

void require_free(const Master& master) {
  const auto port = std::uint16_t(parse_number("MASTER_PORT", master.port, 1, 65535));
  const asio::error_code why = why_not_free(port, true);
  if (!why) return;
  const std::string reason = why == asio::error::address_in_use ? port_owner(port) + " has it" : why.message();
  throw Error(ErrorCode::network, text("port ", port, " of ", rendezvous::host_name(),
                                       ", which is MASTER_PORT on all hosts, is not free: ", reason,
                                       "; add -x MASTER_PORT=PORT on all hosts, with a port that is free there"));
}

std::string encode(const Master& master) {
  return text(master.address, " ", master.port);
}

Master decode_master(std::string_view line) {
  const std::size_t space = line.rfind(' ');
  if (space == std::string_view::npos)
    throw Error(ErrorCode::protocol, "MASTER_ADDR and MASTER_PORT have no space between them");
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

std::optional<std::uint16_t> choose_master_port(std::string_view job, net::PortRange ports, int ranks_here,
                                                const std::function<bool(std::uint16_t)>& is_free) {
  std::optional<std::uint16_t> highest_of_ranks;
  unsigned first = ports.first;
  for (int left = ranks_here; left > 0 && first <= ports.last; first++) {
    if (!is_free(std::uint16_t(first))) continue;
    highest_of_ranks = std::uint16_t(first);
    left--;
  }
  const unsigned count = ports.last + 1 - first;
  for (unsigned i = 0; i < count; i++)
    if (const auto port = std::uint16_t(first + (rendezvous::job_hash(job) + i) % count); is_free(port)) return port;
  return highest_of_ranks;
}

}  // namespace anello::launch
