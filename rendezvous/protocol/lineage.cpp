#include "rendezvous/protocol/lineage.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::rendezvous {
namespace {

// A part of the encoded worlds. In the first exchange a Peer comes before the part. A part that is shorter than this is
// the last one.
constexpr std::size_t kPartBytes = kMaxBlobBytes - 512;
constexpr std::size_t kMaxWorldsBytes = 64 << 20;

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

std::string encode(const std::vector<Peers>& worlds) {
  Writer out;
  out.u32(std::uint32_t(worlds.size()));
  for (const Peers& world : worlds) {
    out.u32(std::uint32_t(world.size()));
    for (const Peer& one : world) write(out, one);
  }
  return std::move(out).take();
}

std::vector<Peers> decode_worlds(std::string_view bytes) {
  Reader in("lineage", bytes);
  std::vector<Peers> worlds;
  for (std::uint32_t left = in.u32(); left > 0; left--) {
    Peers world;
    for (std::uint32_t ranks = in.u32(); ranks > 0; ranks--) world.push_back(read_peer(in));
    worlds.push_back(std::move(world));
  }
  in.finish();
  return worlds;
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

Introductions introduce(const Peer& self, const std::vector<Peers>& own_worlds,
                        const std::function<std::vector<std::string>(std::string blob)>& exchange) {
  const std::string own = encode(own_worlds);
  std::string part, worlds;  // of rank 0
  Introductions all;
  Writer out;
  write(out, self);
  for (const std::string& blob : exchange(out.raw(own.substr(0, kPartBytes)).bytes())) {
    Reader in("lineage", blob);
    all.peers.push_back(read_peer(in));
    if (all.peers.size() == 1) part = in.raw(in.left());
  }
  for (worlds = part; part.size() == kPartBytes; worlds += part) {
    if (worlds.size() > kMaxWorldsBytes)
      throw Error(ErrorCode::protocol, text("lineage message: the worlds of rank 0 have more than ", kMaxWorldsBytes,
                                            " bytes; too many starts in a row have failed"));
    part = exchange(own.substr(std::min(worlds.size(), own.size()), kPartBytes)).front();
  }
  all.earlier = decode_worlds(worlds);
  return all;
}

}  // namespace anello::rendezvous
