// Compares the findings of `anello doctor` about a job's hosts and the links between them. Reports hosts and links that
// differ from the others. Pure.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "rendezvous/launch/doctor/findings.hpp"

namespace anello::launch {

struct HostFindings {
  std::string host;  // the host's name, made distinct: no two hosts have the same name here
  Findings findings;
};

// The speed of a link between two hosts, or between two ranks of one host.
struct HostLink {
  std::size_t from = 0, to = 0;    // numbers of hosts
  double latency_us = 0;           // one way
  double rate = 0, back_rate = 0;  // bytes/s
  double clock_offset_us = 0;      // the clock of `to` minus the clock of `from`
};

// Prints each fact. A fact with the same value on all hosts is printed once; any other fact is printed once for each
// value, with the hosts that have this value.
void print_host_facts(const std::vector<HostFindings>& hosts, std::ostream& out);
// Prints a line for each link. If there are more than 28 links between hosts, prints only the ten slowest.
void print_links(const std::vector<HostFindings>& hosts, std::vector<HostLink> links, std::ostream& out);

// Returns one sentence for each of these problems: a problem of a host; a host with a value that differs from most
// hosts; a link with less than half the rate, or more than three times the latency, of a good link (a quarter of all
// links are equal to it or better); a clock that differs by more than a second from the first host's clock. If all
// links from or to a host are slow, one sentence covers all of them.
std::vector<std::string> compare_hosts(const std::vector<HostFindings>& hosts, const std::vector<HostLink>& links);

}  // namespace anello::launch
