#include "rendezvous/start_log.hpp"

#include <unistd.h>

#include <anello/version.hpp>
#include <map>

#include "rendezvous/protocol/describe.hpp"
#include "ring/algorithms/selection.hpp"
#include "ring/base/config.hpp"
#include "ring/base/cores.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/group/planner.hpp"
#include "ring/net/addresses.hpp"

namespace anello::rendezvous {
namespace {

std::string interface_of(const std::string& address) {
  for (const net::Interface& one : net::local_interfaces())
    if (one.address == address) return " (" + one.name + ")";
  return "";
}

std::string describe_rank(const World& world, const std::string& address) {
  const unsigned port = world::WorldMaker::port(world);
  const std::string listens =
      port ? text("; it listens at ", net::host_port(address, port), interface_of(address)) : std::string();
  return text("anello ", version(), ": rank ", world.rank(), " of ", world.size(), " is pid ", getpid(), " on ",
              world.host(world.rank()), ", local rank ", world.local_rank(), " of ", world.local_size(), ", ",
              available_cores().count(), " cores", listens);
}

std::string describe_hosts(const World& world) {
  std::vector<Join> ranks(std::size_t(world.size()));
  for (int rank = 0; rank < world.size(); rank++) {
    ranks[std::size_t(rank)].rank = rank;
    ranks[std::size_t(rank)].host = world.host(rank);
  }
  return present_list(ranks);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;
  if (bytes < kKiB) return text(bytes, " B");
  return bytes < kMiB ? text(bytes / kKiB, " KiB") : text(bytes / kMiB, " MiB");
}

}  // namespace

std::string describe_transport(const std::vector<std::string>& memories, const Settings& settings) {
  std::map<std::string, std::size_t> domains;
  std::size_t shared = 0;  // pairs that share memory
  for (const std::string& memory : memories)
    if (!memory.empty()) shared += domains[memory]++;
  const std::size_t pairs = memories.size() * (memories.size() - 1) / 2;
  const std::string tcp = settings.connections > 1 ? text("TCP (", settings.connections, " connections)") : "TCP";
  if (shared == pairs) return "shared memory between all ranks";
  if (shared == 0) return tcp + " between all ranks";
  return text("shared memory for ", shared, shared == 1 ? " pair" : " pairs", " of ranks, ", tcp, " for the other ",
              pairs - shared);
}

std::string describe_algorithms(const world::WorldMaker::Layout& layout, const Settings& settings) {
  constexpr std::uint64_t kSmallest = 4, kLargest = 1 << 30;
  algorithms::Facts facts = group::with_settings(layout.facts, settings);
  facts.elem_bytes = kSmallest;
  std::string out;
  std::string_view last;
  for (facts.bytes = kSmallest; facts.bytes <= kLargest; facts.bytes *= 2) {
    const bool stages = algorithms::stage_slab(Kind::allreduce, facts, layout.table) > 0;
    const std::string_view chosen = stages ? "a stage" : name(choose(facts, layout.table).algorithm);
    if (!last.empty() && chosen != last) out += text(last, " up to ", size_text(facts.bytes / 2), ", ");
    last = chosen;
  }
  return out + text(last, out.empty() ? " for all sizes" : " above");
}

void log_start(const World& world, const Settings& settings, const std::string& address) {
  if (!log_enabled(Severity::info)) return;
  log(Severity::info, describe_rank(world, address));
  if (world.rank() != 0) return;
  const std::string changed = changed_settings(settings);
  log(Severity::info, text("settings that differ from their defaults: ", changed.empty() ? "none" : changed));
  if (world.size() == 1) return log(Severity::info, "this world has one rank: nothing is sent");
  const world::WorldMaker::Layout layout = world::WorldMaker::layout(world);
  log(Severity::info, text("hosts: ", describe_hosts(world)));
  log(Severity::info, text("transport: ", describe_transport(layout.memories, settings)));
  try {
    log(Severity::info,
        text("allreduce: ", describe_algorithms(layout, settings), "; layout for ANELLO_TABLE: ", world.layout()));
  } catch (const Error& error) {  // thrown for example if a forced algorithm cannot keep the order of ranks
    log(Severity::warning, error.what());
  }
}

}  // namespace anello::rendezvous
