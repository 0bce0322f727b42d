// The start of a world: listens, exchanges endpoints and settings, and connects the control plane.
#include <algorithm>
#include <anello/camps.hpp>
#include <anello/version.hpp>
#include <map>
#include <numeric>
#include <sstream>
#include <system_error>

#include "ring/algorithms/fingerprint.hpp"
#include "ring/algorithms/tuning_table.hpp"
#include "ring/base/config.hpp"
#include "ring/base/cores.hpp"
#include "ring/base/descriptor.hpp"
#include "ring/base/memory_reserve.hpp"
#include "ring/base/os.hpp"
#include "ring/base/rank_list.hpp"
#include "ring/base/text.hpp"
#include "ring/net/shm_negotiation.hpp"
#include "ring/world/alive_worlds_impl.hpp"
#include "ring/world/check_settings.hpp"
#include "ring/world/core_sharing.hpp"
#include "ring/world/peer_info.hpp"
#include "ring/world/world_impl.hpp"

namespace anello {
namespace {

// Throws if the settings differ. `settings`: for each rank, "VARIABLE=value" lines in the same order.
void compare_settings(const std::map<int, std::string>& settings) {
  const std::vector<Camp<std::string>> all = camps(settings);
  if (all.size() < 2) return;
  const Camp<std::string>&usual = all[0], &odd = odd_camp(all, settings.size());
  const bool in_order = usual.ranks.front() < odd.ranks.front();
  const Camp<std::string>&first = in_order ? usual : odd, &second = in_order ? odd : usual;
  std::istringstream a(first.value), b(second.value);
  std::string line, other;
  while (std::getline(a, line) && std::getline(b, other) && line == other) {
  }
  throw Error(ErrorCode::mismatch,
              text("settings differ: ", who_has(first.ranks), line, ", ", who_has(second.ranks), other,
                   "; they must be equal on all ranks"),
              rank_at_fault(all, settings.size()));
}

// Throws Error{configuration} if shared memory is required and a rank cannot share it.
net::LinkOptions link_options(const std::vector<std::string>& memories, int rank, const Settings& settings) {
  net::LinkOptions options{{}, std::size_t(settings.shm_bytes), settings.transport == "shm"};
  options.connections = std::size_t(settings.connections);
  const std::string& mine = memories[std::size_t(rank)];
  for (std::size_t peer = 0; peer < memories.size(); peer++) {
    const bool shared = !mine.empty() && memories[peer] == mine;
    options.shares_memory.push_back(shared);
    if (!shared && options.memory_required)
      throw Error(ErrorCode::configuration,
                  text("ANELLO_TRANSPORT=shm, but rank ", rank, " cannot share memory with rank ", peer,
                       " (another host, user or network namespace); take 'auto'"));
  }
  return options;
}

}  // namespace

World::Impl::Impl(const Identity& identity, const world::Exchange& exchange, const Settings& settings,
                  const world::StartCheck& check)
    : identity_(identity), settings_(settings) {
  try {
    start(exchange, settings, check);
  } catch (const std::exception& e) {
    report_failed_start(e);
    if (event_loop_) event_loop_->stop();  // so that no handler runs after the objects that it uses are destroyed
    throw;
  }
}

void World::Impl::start(const world::Exchange& exchange, const Settings& settings, const world::StartCheck& check) {
  const auto deadline = std::chrono::steady_clock::now() + settings.start_timeout;
  world::check_settings(settings, identity_.rank, [](const Error& error) { throw error; });
  facts_.world = identity_.size;
  facts_.hosts = identity_.node_count;
  places_ = {{identity_.host}, {0}, {""}, {}};
  if (identity_.size > 1 || world::Diagnosis::serves(settings)) event_loop_.emplace();
  if (identity_.size > 1) join(exchange, settings);
  progress_thread_ = std::make_shared<group::ProgressThread>(wait_policy_);
  std::vector<int> all(std::size_t(identity_.size));
  std::iota(all.begin(), all.end(), 0);
  facts_ = places_.facts_of(all, facts_);
  all_ranks_ = Group::Impl::handle(make_group(0, "the world", std::move(all)));
  if (identity_.size > 1) {
    control_->connect(deadline, check);
    exchange({});  // so that no rank begins before all ranks are connected
  }
  if (event_loop_) services_ = diagnosis_.serve(*event_loop_);
  Alive::add(*this);
}

// Sends the reason to the ranks that are already connected, because otherwise they would report that this rank died. If
// the error names no rank, it is this rank's own fault, unless the error came from the rendezvous.
void World::Impl::report_failed_start(const std::exception& why) {
  if (!control_) return;
  const auto* error = dynamic_cast<const Error*>(&why);
  failure::Verdict verdict{ErrorCode::network, identity_.rank, why.what()};
  if (error) verdict = {error->code(), error->rank(), error->message()};
  const bool lies_here =
      !error || error->rank() == identity_.rank || (error->rank() < 0 && error->code() != ErrorCode::rendezvous);
  if (lies_here) {
    verdict.culprit = identity_.rank;
    verdict.message =
        text("rank ", identity_.rank, " on ", identity_.host, " failed during start-up: ", verdict.message);
  }
  control_->propose(std::move(verdict));  // has no effect if there is already a verdict
  control_->leave(0);
}

void World::Impl::join(const world::Exchange& exchange, const Settings& settings) {
  peer_connections_.emplace(event_loop_->context(), identity_, settings, diagnosis_.rejected_connections());
  open_connections(exchange_peer_info(exchange, settings), settings);
}

// Returns the addresses on which the other ranks listen. Stores other facts about the ranks in member variables. Throws
// if ranks differ in a value that must be equal.
std::vector<net::Endpoint> World::Impl::exchange_peer_info(const world::Exchange& exchange, const Settings& settings) {
  std::vector<net::Endpoint> peers;
  const std::string memory = settings.transport == "tcp" ? "" : net::memory_domain();
  const std::string table = identity_.rank == 0 ? world::read_table(settings.table) : "";
  const std::vector<std::string> blobs = exchange(world::encode(
      {std::string(version()), algorithms::build_fingerprint(), peer_connections_->endpoint(), wire_settings(settings),
       identity_.node_rank, available_cores(), running_kernel(), memory, table}));
  world::compare_builds(blobs);
  std::map<int, std::string> its_settings;
  world::CoreSharing sharing;
  places_ = {};
  for (int rank = 0; rank < identity_.size; rank++) {
    world::PeerInfo them = world::decode_peer_info(blobs.at(std::size_t(rank)));
    if (rank == 0) table_ = algorithms::parse_table(them.table);
    its_settings[rank] = std::move(them.settings);
    sharing.add(them.node_rank, them.kernel, them.cores);
    places_.nodes.push_back(them.node_rank);
    places_.memories.push_back(std::move(them.memory));
    places_.hosts.push_back(them.endpoint.host);
    peers.push_back(std::move(them.endpoint));
  }
  compare_settings(its_settings);
  facts_.oversubscribed = sharing.on_some_host();
  facts_.bound = facts_.oversubscribed && sharing.ranks_are_bound();
  for (const int node : places_.nodes) places_.on_shared_machines.push_back(sharing.on_shared_machine(node));
  wait_policy_ = link::WaitPolicy::of(settings.spin, settings.yields, sharing.on_host(identity_.node_rank));
  return peers;
}

void World::Impl::open_connections(std::vector<net::Endpoint> peers, const Settings& settings) {
  auto& context = event_loop_->context();
  control_.emplace(context, *peer_connections_, identity_, places_.hosts, diagnosis_.recorders(),
                   settings.silence_limit, [this](const failure::Verdict& why) { diagnosis_.failed(why); });
  keep_memory_reserve();
  event_loop_->when_out_of_memory([this] { control_->abort_without_memory(); });
  link_router_.emplace(context, *peer_connections_, identity_.rank,
                       link_options(places_.memories, identity_.rank, settings),
                       [this](std::uint64_t group, const Error& why) { data_link_failed(group, why); });
  const auto accepted = [this](const net::Claim& claim, net::PeerConnections::Socket socket) {
    if (claim.role == net::Role::control)
      control_->accepted(claim.from, std::move(socket));
    else if (claim.role == net::Role::launcher)
      control_->receive_abort(std::move(socket));
    else
      link_router_->accepted(claim, std::move(socket));
  };
  peer_connections_->open(
      std::move(peers), accepted,
      [this](int error) {
        const int rank = identity_.rank;
        control_->propose(
            {ErrorCode::network, rank,
             text("rank ", rank, " on ", identity_.host, " has no file descriptor left for connections of other ranks",
                  remedy_for_lack_of_files(error))});
      },
      [this](const net::Claim& claim) { return link_router_->has_room(claim); });
}

// If the error is a lost connection, the peer may have died. After any other error, the peer is alive.
void World::Impl::data_link_failed(std::uint64_t group, const Error& why) {
  if (why.code() == ErrorCode::network && why.rank() != identity_.rank)
    return control_->suspect(why.rank(), group, why.message());
  control_->propose(
      {why.code(), why.rank(), text("rank ", identity_.rank, " on ", identity_.host, ": ", why.message())});
}

std::uint16_t World::Impl::port() const {
  return peer_connections_ ? peer_connections_->endpoint().port : 0;
}

const Settings& world::WorldMaker::settings(const World& world) {
  return world.impl_->settings();
}
world::WorldMaker::Layout world::WorldMaker::layout(const World& world) {
  return {world.impl_->facts(), world.impl_->table(), world.impl_->places().memories, world.impl_->places().nodes};
}
void world::WorldMaker::leave(World& world) {
  world.impl_->leave();
}
bool world::WorldMaker::has_failed(const World& world) {
  return world.impl_->control_ && world.impl_->control_->failed();
}
std::uint16_t world::WorldMaker::port(const World& world) {
  return world.impl_->port();
}
const std::string& world::WorldMaker::address(const World& world) {
  return world.impl_->identity().address;
}

World world::WorldMaker::make(const Identity& identity, const world::Exchange& exchange, const Settings& settings,
                              const world::StartCheck& check) {
  try {
    World world(std::make_unique<World::Impl>(identity, exchange, settings, check));
    if (!settings.timeline.empty())
      world.impl_->tracing().try_to([&] { world.start_timeline(settings.timeline); }, world);
    return world;
  } catch (const std::system_error& e) {
    throw Error(ErrorCode::network, text("cannot set up the world: ", e.what()));
  }
}

}  // namespace anello
