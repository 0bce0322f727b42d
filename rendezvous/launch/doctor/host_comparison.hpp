// Compares the findings of `anello doctor` about the hosts of a job and the links between them, and reports which host
// or link differs from the others. Pure.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "rendezvous/launch/doctor/findings.hpp"

namespace anello::launch {

struct HostFindings {
  std::string host;  // distinct: two hosts never have the same name here
  Findings findings;
};

// The speed of a link between two hosts, or of one between two ranks of one host.
struct HostLink {
  std::size_t from = 0, to = 0;    // numbers of hosts
  double latency_us = 0;           // one way
  double rate = 0, back_rate = 0;  // bytes/s
  double clock_offset_us = 0;      // the clock of `to` minus that of `from`
};

// Prints a fact with the same value on all hosts once, any other once for each value, with its hosts.
void print_host_facts(const std::vector<HostFindings>& hosts, std::ostream& out);
// Prints a line for each link, or for the ten slowest if there are more than 28 links between hosts.
void print_links(const std::vector<HostFindings>& hosts, std::vector<HostLink> links, std::ostream& out);

// Returns one sentence for each problem of a host, for each host with another value than most hosts, for each link with
// less than half the rate of a good link or more than three times its latency (a quarter of all links are at least
// good), and for each clock that is more than a second from that of the first host. If all links from or to a host are
// slow, one sentence says so.
std::vector<std::string> compare_hosts(const std::vector<HostFindings>& hosts, const std::vector<HostLink>& links);

}  // namespace anello::launch
