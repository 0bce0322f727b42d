#include "rendezvous/launch/doctor/doctor.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <anello/init.hpp>
#include <optional>
#include <ostream>

#include "rendezvous/join/join_plan.hpp"
#include "rendezvous/launch/doctor/findings.hpp"
#include "rendezvous/launch/doctor/host_comparison.hpp"
#include "rendezvous/launch/doctor/host_examination.hpp"
#include "rendezvous/launch/doctor/link_measurement.hpp"
#include "ring/base/text.hpp"
#include "ring/group/text_exchange.hpp"
#include "ring/world/bootstrap.hpp"

namespace anello::launch {
namespace {

int print(const Findings& findings, std::ostream& out) {
  print_facts(findings.facts, out);
  print_problems(findings.problems, out);
  return int(findings.problems.size());
}

// True if init() would join other ranks. False if a setting is wrong: the examination of the host reports wrong
// settings.
bool is_one_of_several() try {
  const rendezvous::JoinPlan plan = rendezvous::plan_join(Settings::from_environment(), rendezvous::placements());
  return plan.settings.size > 1 || !plan.ways.empty();
} catch (const Error&) {
  return false;
}

// Returns the findings of each host, ordered by the host's number. Hosts may have the same name, for example in
// containers.
std::vector<HostFindings> gather_findings(World& world, const std::vector<Place>& places, const Findings& mine) {
  const std::string report = world.local_rank() == 0 ? encode(mine) : "";
  const std::vector<std::string> reports = group::gather_text(world, report, {.name = "findings"});
  std::vector<HostFindings> hosts(std::size_t(world.node_count()));
  for (std::size_t rank = 0; rank < places.size(); rank++) {
    if (places[rank].local_rank != 0) continue;
    const std::string& name = world.host(int(rank));
    const bool taken = std::ranges::find(hosts, name, &HostFindings::host) != hosts.end();
    hosts[std::size_t(places[rank].node)] = {taken ? text(name, " (rank ", rank, ")") : name,
                                             decode_findings(reports[rank])};
  }
  return hosts;
}

std::vector<HostLink> between_places(const std::vector<LinkMeasurement>& links, const std::vector<Place>& places) {
  std::vector<HostLink> out;
  for (const LinkMeasurement& link : links)
    out.push_back({std::size_t(places[std::size_t(link.from)].node), std::size_t(places[std::size_t(link.to)].node),
                   link.latency_us, link.rate, link.back_rate, link.clock_offset_us});
  std::ranges::sort(out, {}, [](const HostLink& link) { return std::pair(link.from, link.to); });
  return out;
}

int examine_world(World& world, Findings& mine, std::ostream& out) {
  mine.fact("network", describe_interface(world::WorldMaker::address(world)));
  const std::vector<Place> places = gather_places(world);
  const std::vector<HostFindings> hosts = gather_findings(world, places, mine);
  const std::vector<HostLink> links = between_places(measure_links(world, places), places);
  world.finish();
  if (world.rank() != 0) return 0;
  out << world.size() << " ranks on " << hosts.size() << (hosts.size() == 1 ? " host\n" : " hosts\n");
  print_host_facts(hosts, out);
  print_links(hosts, links, out);
  const std::vector<std::string> problems = compare_hosts(hosts, links);
  print_problems(problems, out);
  return int(problems.size());
}

}  // namespace

int doctor(std::ostream& out) {
  const bool several = is_one_of_several();
  Findings findings = examine_host(!several);
  if (!several) return print(findings, out);
  std::optional<World> world;
  try {
    world.emplace(init());
  } catch (const Error& error) {
    if (findings.problems.empty()) findings.problem(error.what());
    return print(findings, out);
  }
  return examine_world(*world, findings, out);
}

}  // namespace anello::launch
