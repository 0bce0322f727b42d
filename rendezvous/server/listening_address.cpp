#include "rendezvous/server/listening_address.hpp"

#include <anello/error.hpp>
#include <string_view>

#include "rendezvous/protocol/resolve.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {

using asio::ip::tcp;

namespace {

// Returns a remedy if the text has a port. Other settings take host:port, so users also write host:port here.
std::string remedy_for_port(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view port = address.substr(colon + 1);
  if (port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos) return {};
  return text("; give its port apart: --port ", port);
}

}  // namespace

tcp::endpoint endpoint_to_listen_on(const ServerOptions& options) {
  asio::error_code failure;
  const auto found = resolve(options.listen_address, options.port, failure);
  if (failure || found.empty())
    throw Error(ErrorCode::configuration,
                text("the address to listen on must be one of this host, or a name that it resolves, not '",
                     options.listen_address, "' (", failure.message(), ")", remedy_for_port(options.listen_address)));
  const tcp::endpoint& where = found.front();
  if (options.secret.empty() && !net::is_loopback(where.address().to_string()))
    throw Error(ErrorCode::configuration,
                text("listening on ", options.listen_address,
                     " needs a secret: set ANELLO_SECRET_FILE (`anello secret FILE` makes one), or listen on "
                     "127.0.0.1"));
  return where;
}

std::string usable_address(const asio::ip::address& listening) {
  if (!listening.is_unspecified()) return listening.to_string();
  const auto own = net::addresses_for_other_hosts(listening.to_string(), net::local_interfaces());
  if (!own.empty()) return own.front();
  return listening.is_v6() ? "::1" : "127.0.0.1";
}

}  // namespace anello::rendezvous
