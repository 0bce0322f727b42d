#include "rendezvous/join/home_secret.hpp"

#include <anello/error.hpp>
#include <filesystem>

#include "ring/base/config.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/auth.hpp"

namespace anello::rendezvous {

std::string home_secret_path() {
  using std::filesystem::path;
  if (const auto folder = environment("XDG_CONFIG_HOME")) return path(*folder) / "anello" / "secret";
  if (const auto home = environment("HOME")) return path(*home) / ".config" / "anello" / "secret";
  return {};
}

std::string read_any_secret(const Settings& settings) {
  std::string given = net::read_secret(settings);
  if (!given.empty()) return given;
  Settings mine;
  mine.secret_file = home_secret_path();
  std::error_code unreadable;
  if (!std::filesystem::exists(mine.secret_file, unreadable)) return {};
  try {
    return net::read_secret(mine);
  } catch (Error& error) {
    throw error.within("the secret in your home, which is used because no other is set");
  }
}

std::string read_server_secret(const Settings& settings, std::string_view host) {
  const bool loopback = host == "localhost" || net::is_loopback(host);
  return loopback ? net::read_secret(settings) : read_any_secret(settings);
}

std::string read_job_secret(const Settings& settings) {
  if (settings.rendezvous.empty()) return net::read_secret(settings);
  return read_server_secret(settings, net::parse_host_ports("ANELLO_RENDEZVOUS", settings.rendezvous).front().host);
}

}  // namespace anello::rendezvous
