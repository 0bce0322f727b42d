#include "rendezvous/protocol/lineage.hpp"

#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::rendezvous {
namespace {

constexpr std::uint32_t kMaxWorlds = 64;

void write(Writer& out, const Peer& peer) {
  out.str(peer.address).u16(peer.port).u32(peer.pid);
}

Peer read_peer(Reader& in) {
  Peer peer;
  peer.address = printable(in.str(kMaxNameBytes));
  peer.port = in.u16();
  peer.pid = in.u32();
  return peer;
}

std::uint32_t read_count(Reader& in, std::uint32_t max) {
  const std::uint32_t count = in.u32();
  if (count > max) throw Error(ErrorCode::protocol, text("lineage message: ", count, " is more than ", max));
  return count;
}

}  // namespace

std::string describe(const Peer& peer) {
  return text(peer.address, " pid ", peer.pid);
}

void Lineage::starts(const Assigned& place, Peers peers, std::vector<Peers> earlier,
                     std::chrono::steady_clock::time_point agreed) {
  since = agreed;
  if (worlds.empty()) worlds = std::move(earlier);
  generation = place.generation;
  incarnation = place.incarnation;
  rank = place.rank;
  std::erase(worlds, peers);
  worlds.push_back(std::move(peers));
}

void Lineage::trains() {
  if (worlds.size() > 1) worlds.erase(worlds.begin(), worlds.end() - 1);
}

std::string encode_peer(const Peer& peer, const std::vector<Peers>& worlds) {
  Writer out;
  write(out, peer);
  out.u32(std::uint32_t(worlds.size()));
  for (const Peers& world : worlds) {
    out.u32(std::uint32_t(world.size()));
    for (const Peer& one : world) write(out, one);
  }
  return std::move(out).take();
}

Peer decode_peer(std::string_view blob, std::vector<Peers>& worlds) {
  Reader in("lineage", blob);
  Peer peer = read_peer(in);
  worlds.clear();
  for (std::uint32_t left = read_count(in, kMaxWorlds); left > 0; left--) {
    Peers world;
    for (std::uint32_t ranks = read_count(in, kMaxRanks); ranks > 0; ranks--) world.push_back(read_peer(in));
    worlds.push_back(std::move(world));
  }
  in.finish();
  return peer;
}

}  // namespace anello::rendezvous
