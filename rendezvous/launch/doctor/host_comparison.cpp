#include "rendezvous/launch/doctor/host_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iomanip>
#include <map>
#include <ostream>
#include <sstream>
#include <string_view>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

constexpr std::size_t kMaxLinksShown = 28, kSlowestShown = 10;
constexpr double kSlowRate = 0.5, kSlowLatency = 3, kLatencyNoiseUs = 100, kMaxClockOffsetUs = 1e6;

using AllFindings = std::vector<HostFindings>;
using HostsByValue = std::map<std::string, std::vector<std::string>>;

// Groups the hosts by their values of one fact. A host without the fact has the value "none".
HostsByValue values_of(const AllFindings& hosts, const std::string& fact) {
  HostsByValue out;
  for (const HostFindings& host : hosts) {
    const auto found = std::ranges::find(host.findings.facts, fact, &Fact::name);
    out[found == host.findings.facts.end() ? "none" : found->value].push_back(host.host);
  }
  return out;
}

// Lists every fact once, ordered by the first host that has the fact.
std::vector<Fact> all_facts(const AllFindings& hosts) {
  std::vector<Fact> out;
  for (const HostFindings& host : hosts)
    for (const Fact& fact : host.findings.facts)
      if (std::ranges::find(out, fact.name, &Fact::name) == out.end()) out.push_back(fact);
  return out;
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

void compare_facts(const AllFindings& hosts, std::vector<std::string>& problems) {
  for (const Fact& fact : all_facts(hosts)) {
    if (fact.differs) continue;
    const HostsByValue values = values_of(hosts, fact.name);
    const auto usual = std::ranges::max_element(values, {}, [](const auto& entry) { return entry.second.size(); });
    if (2 * usual->second.size() <= hosts.size()) continue;
    for (const auto& [value, names] : values)
      if (value != usual->first)
        problems.push_back(text(join(names), ": ", fact.name, " is ", value, "; on most hosts it is ", usual->first));
  }
}

// One direction of a link between two hosts, with a measured value.
struct Direction {
  std::size_t from, to;
  double value;
};

std::string gigabits(double bytes_per_second) {
  std::ostringstream out;
  out << std::setprecision(3) << bytes_per_second * 8e-9 << " Gbit/s";
  return out.str();
}

std::string microseconds(double us) {
  std::ostringstream out;
  if (us < 1e3)
    out << std::setprecision(3) << us << " us";
  else if (us < 1e6)
    out << std::setprecision(3) << us / 1e3 << " ms";
  else
    out << std::setprecision(6) << us / 1e6 << " s";
  return out.str();
}

// Returns a value so that about a quarter of all directions have this value or a better one. `better(a, b)`: a is
// better than b.
template <class Better>
double good_value(const std::vector<Direction>& all, Better better) {
  std::vector<double> values;
  for (const Direction& one : all) values.push_back(one.value);
  std::ranges::sort(values, better);
  return values[(values.size() - 1) / 4];
}

// A set of directions, and its name in a message: all links from a host, to a host, or in both directions.
struct Grouping {
  std::string_view words;
  bool from, to;
  bool contains(const Direction& one, std::size_t host) const {
    return (from && one.from == host) || (to && one.to == host);
  }
};

struct Complaint {
  // The predicates of the sentences about several links and about one link, such as "are slow" and "is slow".
  std::string_view of_many, of_one;
  std::function<std::string(double)> show;
  double good;
  std::string_view remedy;
  std::vector<Grouping> groupings;

  std::string sentence(const std::string& subject, std::string_view predicate, double value) const {
    return text(subject, ' ', predicate, " (", show(value), "; good links have ", show(good), "); ", remedy);
  }
};

// Adds one sentence for each bad link. If all links from or to a host are bad, adds one sentence for the host instead.
void report(const AllFindings& hosts, const std::vector<Direction>& all, std::vector<Direction> bad,
            const Complaint& complaint, std::vector<std::string>& problems) {
  for (const Grouping& grouping : complaint.groupings) {
    for (std::size_t host = 0; host < hosts.size() && hosts.size() > 2; host++) {
      const auto belongs = [&](const Direction& one) { return grouping.contains(one, host); };
      const auto found = std::ranges::find_if(bad, belongs);
      if (found == bad.end() || std::ranges::count_if(bad, belongs) != std::ranges::count_if(all, belongs)) continue;
      problems.push_back(complaint.sentence(text("all links ", grouping.words, ' ', hosts[host].host),
                                            complaint.of_many, found->value));
      std::erase_if(bad, belongs);
    }
  }
  for (const Direction& one : bad)
    problems.push_back(complaint.sentence(text("the link from ", hosts[one.from].host, " to ", hosts[one.to].host),
                                          complaint.of_one, one.value));
}

void compare_rates(const AllFindings& hosts, const std::vector<HostLink>& links, std::vector<std::string>& problems) {
  std::vector<Direction> all, bad;
  for (const HostLink& link : links) {
    all.push_back({link.from, link.to, link.rate});
    all.push_back({link.to, link.from, link.back_rate});
  }
  if (all.empty()) return;
  const double good = good_value(all, std::greater());
  for (const Direction& one : all)
    if (one.value < kSlowRate * good) bad.push_back(one);
  report(hosts, all, bad,
         {"are slow",
          "is slow",
          gigabits,
          good,
          "check cables, the switch's port and the interface's speed",
          {{"from and to", true, true}, {"from", true, false}, {"to", false, true}}},
         problems);
}

void compare_latencies(const AllFindings& hosts, const std::vector<HostLink>& links,
                       std::vector<std::string>& problems) {
  std::vector<Direction> all, bad;
  for (const HostLink& link : links) all.push_back({link.from, link.to, link.latency_us});
  if (all.empty()) return;
  const double good = good_value(all, std::less());
  for (const Direction& one : all)
    if (one.value > kSlowLatency * good && one.value > good + kLatencyNoiseUs) bad.push_back(one);
  report(hosts, all, bad,
         {"have a high latency",
          "has a high latency",
          microseconds,
          good,
          "look for other load on the hosts, and for a longer route",
          {{"from and to", true, true}}},
         problems);
}

void compare_clocks(const AllFindings& hosts, const std::vector<HostLink>& links, std::vector<std::string>& problems) {
  for (const HostLink& link : links)
    if (link.from == 0 && std::abs(link.clock_offset_us) > kMaxClockOffsetUs)
      problems.push_back(text(hosts[link.to].host, ": its clock is ", microseconds(std::abs(link.clock_offset_us)),
                              link.clock_offset_us > 0 ? " ahead of" : " behind", " that of ", hosts[0].host,
                              "; start a time service (chrony, ntpd)"));
}

std::vector<HostLink> between_hosts(const std::vector<HostLink>& links) {
  std::vector<HostLink> out;
  std::ranges::copy_if(links, std::back_inserter(out), [](const HostLink& link) { return link.from != link.to; });
  return out;
}

double slower_rate(const HostLink& link) {
  return std::min(link.rate, link.back_rate);
}

}  // namespace

void print_host_facts(const AllFindings& hosts, std::ostream& out) {
  std::vector<Fact> equal, different;
  for (const Fact& fact : all_facts(hosts)) {
    const HostsByValue values = values_of(hosts, fact.name);
    if (values.size() == 1) {
      equal.push_back(fact);
      continue;
    }
    for (const auto& [value, names] : values) different.push_back({fact.name, text(value, "  (", join(names), ")")});
  }
  print_facts(equal, out);
  if (!different.empty()) out << "\ndifferent on the hosts:\n";
  print_facts(different, out);
}

void print_links(const AllFindings& hosts, std::vector<HostLink> links, std::ostream& out) {
  const std::size_t count = between_hosts(links).size();
  if (count > kMaxLinksShown) {
    links = between_hosts(links);
    std::ranges::sort(links, {}, slower_rate);
    links.resize(kSlowestShown);
    out << "\nthe " << kSlowestShown << " slowest of " << count << " links between hosts:\n";
  } else {
    out << "\nlinks (latency one way, rate in both directions, difference of the clocks):\n";
  }
  for (const HostLink& link : links) {
    const bool one_host = link.from == link.to;
    std::vector<Fact> line = {
        {one_host ? hosts[link.from].host + ", ranks 0-1" : hosts[link.from].host + " - " + hosts[link.to].host,
         text(microseconds(link.latency_us), ", ", gigabits(link.rate), " and ", gigabits(link.back_rate))}};
    if (!one_host)
      line[0].value += text(", ", link.clock_offset_us < 0 ? "-" : "+", microseconds(std::abs(link.clock_offset_us)));
    print_facts(line, out);
  }
}

std::vector<std::string> compare_hosts(const AllFindings& hosts, const std::vector<HostLink>& links) {
  std::vector<std::string> problems;
  HostsByValue of_hosts;
  for (const HostFindings& host : hosts)
    for (const std::string& problem : host.findings.problems) of_hosts[problem].push_back(host.host);
  for (const auto& [problem, names] : of_hosts) problems.push_back(join(names) + ": " + problem);
  const std::vector<HostLink> outside = between_hosts(links);
  compare_facts(hosts, problems);
  compare_rates(hosts, outside, problems);
  compare_latencies(hosts, outside, problems);
  compare_clocks(hosts, outside, problems);
  return problems;
}

}  // namespace anello::launch
