#include "rendezvous/protocol/resolve.hpp"

#include <algorithm>
#include <asio/io_context.hpp>

#include "ring/net/addresses.hpp"

namespace anello::rendezvous {
namespace {

using asio::ip::tcp;

// True for localhost and the other usual names of loopback.
bool means_loopback(const std::string& host) {
  return host.starts_with("localhost") || host.starts_with("ip6-");
}

bool is_numeric(const std::string& host) {
  asio::error_code failure;
  asio::ip::make_address(host, failure);
  return !failure;
}

}  // namespace

std::vector<tcp::endpoint> resolve(const std::string& host, std::uint16_t port, asio::error_code& failure) {
  asio::io_context context;
  const auto found =
      tcp::resolver(context).resolve(host, std::to_string(port), tcp::resolver::numeric_service, failure);
  std::vector<tcp::endpoint> out;
  for (const auto& entry : found) out.push_back(entry.endpoint());
  const bool all_loopback =
      std::ranges::all_of(out, [](const tcp::endpoint& one) { return one.address().is_loopback(); });
  if (out.empty() || !all_loopback || is_numeric(host) || means_loopback(host)) return out;
  std::vector<tcp::endpoint> own;
  for (const std::string& address :
       net::addresses_for_other_hosts(out[0].address().to_string(), net::local_interfaces()))
    own.emplace_back(asio::ip::make_address(address), port);
  out.insert(out.begin(), own.begin(), own.end());
  return out;
}

}  // namespace anello::rendezvous
