// The secret of a user's jobs on all hosts that share a home: a file that `anello secret` makes once and that is found
// without a setting. Any thread.
#pragma once
#include <anello/settings.hpp>
#include <string>
#include <string_view>

namespace anello::rendezvous {

// ${XDG_CONFIG_HOME:-$HOME/.config}/anello/secret; empty if neither variable is set.
std::string home_secret_path();

// The secret of the settings, or else that of the user's home; empty if there is neither. Throws as net::read_secret()
// does, also if the file in the home cannot be used.
std::string read_any_secret(const Settings& settings);

// For a rank that joins at ANELLO_RENDEZVOUS, and for a server that listens at `host`: on loopback only the settings'
// secret, because the file may be there for other jobs. The first also throws Error{configuration} if ANELLO_RENDEZVOUS
// is not a list of addresses.
std::string read_job_secret(const Settings& settings);
std::string read_server_secret(const Settings& settings, std::string_view host);

}  // namespace anello::rendezvous
