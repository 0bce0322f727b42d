// The secret that a user's jobs share on all hosts with the same home. `anello secret` makes the secret's file once,
// and jobs then find the file without a setting. Any thread.
#pragma once
#include <anello/settings.hpp>
#include <string>
#include <string_view>

namespace anello::rendezvous {

// Returns ${XDG_CONFIG_HOME:-$HOME/.config}/anello/secret; empty if neither variable is set.
std::string home_secret_path();

// Returns the secret that the settings name. If they name none, returns the secret in the user's home; empty if there
// is none either. Throws like net::read_secret(), also if the file in the home cannot be used.
std::string read_any_secret(const Settings& settings);

// read_job_secret() is for a rank that joins at ANELLO_RENDEZVOUS, read_server_secret() for a server that listens at
// `host`. On loopback both functions use only the secret of the settings, because the file in the home may exist for
// other jobs. read_job_secret() also throws Error{configuration} if ANELLO_RENDEZVOUS is not a list of addresses.
std::string read_job_secret(const Settings& settings);
std::string read_server_secret(const Settings& settings, std::string_view host);

}  // namespace anello::rendezvous
