// Lists of hosts that users write: -H on the command line, and host files. For the lists of schedulers see
// allocation.hpp. Plain data and pure functions, except for the functions that read a file. Any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anello::launch {

struct Host {
  std::string name;                   // for ssh: "h1", "user@h1", "10.0.0.1", or "fd00::1" without brackets
  std::optional<int> slots = {};      // how many ranks the host runs; no value: not given
  std::optional<int> max_slots = {};  // the maximum number of ranks, if -N asks for more ranks than slots
};
using Hosts = std::vector<Host>;

// Parses "h1:4,user@h2,[fd00::1]:2". A host without a number has one slot. If a host is listed again, its slots are
// added up. Throws Error{configuration} that names `what` and the entry.
Hosts parse_host_list(std::string_view what, std::string_view list);

// Parses one host a line, as in files for Open MPI and MPICH: "h1", "h1:4", "h1 slots=4 max-slots=8". Skips empty
// lines, and comments that begin with #. Throws Error{configuration} that names `path` and the line. If a
// character is not ASCII, the message also has its code point.
Hosts parse_host_file(const std::string& path, std::string_view content);

// Reads the file; "-" is standard input.
Hosts read_host_file(const std::string& path);
std::string read_text(const std::string& path);  // a whole file; throws Error{configuration}

// Appends a host. If the list already has a host of this name, adds the slots of `host` to it instead.
void add_host(Hosts& hosts, Host host);

// Returns a text for messages: "host h1", "hosts h1 and h2", "hosts h1, h2, h3, h4 and 5 more".
std::string list_hosts(const std::vector<std::string>& names);

// True if the names are equal or differ only in the domain, because only some systems include the domain in a host's
// name.
bool same_host(std::string_view one, std::string_view other);

// Throws Error{configuration} if ssh or a shell could take the name for something else.
void check_host_name(std::string_view what, std::string_view name);

// Returns the text without spaces at both ends.
std::string_view trimmed(std::string_view text);

}  // namespace anello::launch
