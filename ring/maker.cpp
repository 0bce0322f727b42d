// How a world comes to be: listen, trade endpoints and settings, connect the control plane.
#include <algorithm>
#include <system_error>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/cores.hpp"
#include "ring/net/handover.hpp"
#include "ring/shm/pipe.hpp"
#include "ring/world_impl.hpp"

namespace anello {
namespace {

constexpr std::size_t kMaxHostBytes = 255, kMaxSettingsBytes = 4096, kMaxMemoryBytes = 255;

// What a rank tells the others of itself.
struct Introduction {
  Endpoint endpoint;
  std::string settings;
  bool oversubscribed = false;  // this host has more ranks than cores
  std::string memory;           // whom it can share memory with: those that say the same; empty: nobody
};

std::string encode(const Introduction& me) {
  Writer writer;
  writer.str(me.endpoint.address).u16(me.endpoint.port).str(me.endpoint.host.substr(0, kMaxHostBytes)).str(me.settings);
  writer.u8(me.oversubscribed).str(me.memory);
  return std::move(writer).take();
}

Introduction decode_introduction(std::string_view blob) {
  Reader reader("introduction", blob);
  Introduction them;
  them.endpoint.address = reader.str(kMaxHostBytes);
  them.endpoint.port = reader.u16();
  them.endpoint.host = reader.str(kMaxHostBytes);
  them.settings = reader.str(kMaxSettingsBytes);
  them.oversubscribed = reader.u8() != 0;
  them.memory = reader.str(kMaxMemoryBytes);
  reader.finish();
  return them;
}

// Both are "VARIABLE=value" lines in the same order.
void compare_settings(const std::string& first, const std::string& theirs, int rank) {
  if (first == theirs) return;
  std::istringstream a(first), b(theirs);
  std::string line, other;
  while (std::getline(a, line) && std::getline(b, other) && line == other) {
  }
  throw Error(
      Code::mismatch,
      text("settings differ: rank 0 has ", line, ", rank ", rank, " has ", other, "; they must be equal on all ranks"),
      rank);
}

// Throws Error{configuration} for a value that is none, or memory that cannot be.
void check_transport(const Settings& settings) {
  const std::string& transport = settings.transport;
  if (transport != "auto" && transport != "tcp" && transport != "shm")
    throw Error(Code::configuration, text("ANELLO_TRANSPORT='", transport, "' is none of auto, tcp, shm"));
  if (settings.shm_bytes % int(kLineBytes) != 0)
    throw Error(Code::configuration,
                text("ANELLO_SHM_BYTES='", settings.shm_bytes, "' is no multiple of ", kLineBytes));
}

Sharing sharing_of(const std::vector<std::string>& memory, int rank, const Settings& settings) {
  Sharing sharing{{}, std::size_t(settings.shm_bytes), settings.transport == "shm"};
  const std::string& mine = memory[std::size_t(rank)];
  for (const std::string& theirs : memory) sharing.with.push_back(!mine.empty() && theirs == mine);
  const auto other = std::find(sharing.with.begin(), sharing.with.end(), false);
  if (sharing.required && other != sharing.with.end())
    throw Error(Code::configuration,
                text("ANELLO_TRANSPORT=shm, but rank ", rank, " cannot share memory with rank ",
                     other - sharing.with.begin(), " (another host, user or network namespace); take 'auto'"));
  return sharing;
}

}  // namespace

World::Impl::Impl(const Identity& identity, const Exchange& exchange, const Settings& settings) : identity_(identity) {
  facts_.world = identity.size;
  facts_.hosts = identity.node_count;
  facts_.oversubscribed = identity.local_size > available_cores();
  hosts_ = {identity.host};
  try {
    if (identity.size > 1) join(exchange, settings);
    communicator_.emplace(identity_, facts_, settings, bell_, control_ ? &*control_ : nullptr,
                          links_ ? &*links_ : nullptr);
  } catch (...) {
    if (background_) background_->stop();  // before what its handlers use is gone
    throw;
  }
}

void World::Impl::join(const Exchange& exchange, const Settings& settings) {
  const auto deadline = std::chrono::steady_clock::now() + settings.start_timeout;
  background_.emplace();
  auto& context = background_->context();
  mesh_.emplace(context, identity_, settings);

  std::vector<Endpoint> peers;
  check_transport(settings);
  const std::string memory = settings.transport == "tcp" ? "" : memory_domain();
  const std::vector<std::string> blobs =
      exchange(encode({mesh_->endpoint(), wire_settings(settings), facts_.oversubscribed, memory}));
  std::string first;
  std::vector<std::string> memories;
  hosts_.clear();
  for (int rank = 0; rank < identity_.size; rank++) {
    Introduction them = decode_introduction(blobs.at(std::size_t(rank)));
    if (rank == 0) first = them.settings;
    compare_settings(first, them.settings, rank);
    facts_.oversubscribed |= them.oversubscribed;
    memories.push_back(std::move(them.memory));
    hosts_.push_back(them.endpoint.host);
    peers.push_back(std::move(them.endpoint));
  }

  Sharing sharing = sharing_of(memories, identity_.rank, settings);
  facts_.memory = std::find(sharing.with.begin(), sharing.with.end(), false) == sharing.with.end();

  control_.emplace(context, *mesh_, identity_, hosts_, bell_);
  links_.emplace(context, *mesh_, identity_.rank, std::move(sharing), bell_,
                 [this](int peer, std::string why) { control_->suspect(peer, std::move(why)); });
  mesh_->open(std::move(peers), [this](const Claim& claim, Mesh::Socket socket) {
    if (claim.role == Role::control)
      control_->accepted(claim.from, std::move(socket));
    else
      links_->accepted(claim.from, std::move(socket));
  });
  control_->connect(deadline);
  exchange({});  // nobody begins before everybody is connected
}

World WorldMaker::make(const Identity& identity, const Exchange& exchange, const Settings& settings) {
  try {
    return World(std::make_unique<World::Impl>(identity, exchange, settings));
  } catch (const std::system_error& e) {
    throw Error(Code::network, text("cannot set up the world: ", e.what()));
  }
}

}  // namespace anello
