#include "rendezvous/launch/job/hosts.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "rendezvous/launch/base/plain_text.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr long kMaxSlots = 65536;

Error wrong(std::string_view what, const std::string& why) {
  return {ErrorCode::configuration, text(what, ": ", printable(why))};
}

// Refuses characters that look like others, or are invisible, because they would make other messages misleading.
void require_usual_characters(std::string_view what, std::string_view given) {
  if (const std::string found = first_unusual_character(given); !found.empty())
    throw Error(ErrorCode::configuration, text(what, ": '", given, "' has the character ", found,
                                               "; write it with letters, digits, spaces and signs of the keyboard"));
}

int slots_of(std::string_view what, std::string_view digits) {
  return int(parse_number(text(what, ": slots"), digits, 1, kMaxSlots));
}

// Parses "[v6]" or "[v6]:slots"; "user@" may be before it.
Host bracketed(std::string_view what, std::string_view entry, std::size_t open) {
  const std::size_t close = entry.find(']');
  if (close == std::string_view::npos) throw wrong(what, text("'", entry, "' has no closing bracket"));
  const std::string address(entry.substr(open + 1, close - open - 1));
  in6_addr parsed{};
  if (inet_pton(AF_INET6, address.substr(0, address.find('%')).c_str(), &parsed) != 1)
    throw wrong(what, text("'", address, "' in brackets is not an IPv6 address"));
  Host host{std::string(entry.substr(0, open)) + address, std::nullopt};
  const std::string_view rest = entry.substr(close + 1);
  if (rest.empty()) return host;
  if (rest[0] != ':') throw wrong(what, text("'", entry, "': after an address in brackets only :SLOTS may follow"));
  host.slots = slots_of(what, rest.substr(1));
  return host;
}

// Parses "name", "name:slots", or an address in brackets.
Host parse_entry(std::string_view what, std::string_view entry) {
  Host host;
  const std::size_t open = entry.find('['), colon = entry.find(':');
  if (open != std::string_view::npos && open < colon) {
    host = bracketed(what, entry, open);
  } else {
    if (entry.find_first_of(" \t") != std::string_view::npos)
      throw wrong(what, text("'", entry, "': write commas between hosts"));
    if (std::ranges::count(entry, ':') > 1)
      throw wrong(what, text("'", entry, "': write an IPv6 address in brackets: [fd00::1] or [fd00::1]:4"));
    host.name = entry.substr(0, colon);
    if (colon != std::string_view::npos) host.slots = slots_of(what, entry.substr(colon + 1));
  }
  check_host_name(what, host.name);
  return host;
}

// Turns "slots = 4" into "slots=4".
std::string without_spaces_at_equals(std::string_view line) {
  std::string out;
  for (const char c : line) {
    const bool space = c == ' ' || c == '\t';
    if (c == '=') out = out.substr(0, out.find_last_not_of(" \t") + 1);
    if (!space || !out.ends_with('=')) out += c;
  }
  return out;
}

Host parse_line(std::string_view where, const std::string& line) {
  std::istringstream words(without_spaces_at_equals(line));
  std::string word;
  words >> word;
  Host host = parse_entry(where, word);
  while (words >> word) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const bool at_most = name == "max-slots" || name == "max_slots";
    if ((name != "slots" && !at_most) || equals == word.size())
      throw wrong(where, text("'", word, "' is not known; write slots=N or max-slots=N"));
    std::optional<int>& number = at_most ? host.max_slots : host.slots;
    if (number) throw wrong(where, text("the ", name, " of ", host.name, " are given twice"));
    number = slots_of(where, std::string_view(word).substr(equals + 1));
  }
  if (host.max_slots && host.slots.value_or(1) > *host.max_slots)
    throw wrong(where, text(host.name, " has ", *host.slots, " slots, more than its max-slots=", *host.max_slots));
  return host;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

void check_host_name(std::string_view what, std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-@:%").find(c) != std::string_view::npos;
  };
  if (name.empty()) throw wrong(what, "a host's name is missing");
  require_usual_characters(what, name);
  if (name[0] == '-' || name[0] == '@' || name.back() == '@' || !std::ranges::all_of(name, allowed))
    throw wrong(what, text("'", name, "' is not the name or address of a host"));
}

bool same_host(std::string_view one, std::string_view other) {
  if (one.size() > other.size()) std::swap(one, other);
  const bool has_domain = one.find('.') != std::string_view::npos;
  return one == other || (!has_domain && other.starts_with(std::string(one) + "."));
}

std::string list_hosts(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxListed = 4;
  const std::size_t listed = names.size() > kMaxListed + 1 ? kMaxListed : names.size(), more = names.size() - listed;
  std::string out = names.size() == 1 ? "host " : "hosts ";
  for (std::size_t i = 0; i < listed; i++)
    out += text(i == 0 ? "" : i + 1 == listed && more == 0 ? " and " : ", ", names[i]);
  return out + (more > 0 ? text(" and ", more, " more") : "");
}

void add_host(Hosts& hosts, Host host) {
  const auto same = std::ranges::find(hosts, host.name, &Host::name);
  if (same == hosts.end()) return hosts.push_back(std::move(host));
  if (same->slots && host.slots) *same->slots += *host.slots;
  if (host.max_slots) same->max_slots = same->max_slots.value_or(0) + *host.max_slots;
}

Hosts parse_host_list(std::string_view what, std::string_view list) {
  Hosts hosts;
  require_usual_characters(what, list);
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    Host host = parse_entry(what, trimmed(list.substr(at, end - at)));
    host.slots = host.slots.value_or(1);
    add_host(hosts, std::move(host));
    at = end + 1;
  }
  return hosts;
}

Hosts parse_host_file(const std::string& path, std::string_view content) {
  Hosts hosts;
  std::istringstream lines{plain_text(path, std::string(content))};
  std::string line;
  for (int number = 1; std::getline(lines, line); number++) {
    line.resize(std::min(line.find('#'), line.size()));
    if (trimmed(line).empty()) continue;
    require_usual_characters(text(path, ":", number), trimmed(line));
    Host host = parse_line(text(path, ":", number), line);
    host.slots = host.slots.value_or(1);
    add_host(hosts, std::move(host));
  }
  if (hosts.empty()) throw wrong(path, "names no host; write one a line: h1 slots=4");
  return hosts;
}

std::string read_text(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw wrong("cannot read " + path, "it is a folder");
  std::ifstream file(path == "-" ? "/dev/stdin" : path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) throw wrong("cannot read " + path, std::strerror(errno ? errno : EISDIR));
  return content;
}

Hosts read_host_file(const std::string& path) {
  return parse_host_file(path == "-" ? "standard input" : path, read_text(path));
}

}  // namespace anello::launch
