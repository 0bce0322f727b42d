#include "ring/world/peer_info.hpp"

#include "ring/base/wire.hpp"

namespace anello::world {
namespace {

constexpr std::size_t kMaxHostBytes = 255, kMaxSettingsBytes = 4096, kMaxMemoryBytes = 255, kMaxCoreBytes = 8192;
constexpr double kQuotaUnits = 1000;  // of a core

}  // namespace

std::string encode(const PeerInfo& me) {
  Writer writer;
  writer.str(me.endpoint.address).u16(me.endpoint.port).str(me.endpoint.host.substr(0, kMaxHostBytes)).str(me.settings);
  writer.i32(me.node_rank).str(me.cores.allowed).u64(std::uint64_t(me.cores.quota * kQuotaUnits)).str(me.memory);
  writer.str(me.table);
  return std::move(writer).take();
}

PeerInfo decode_peer_info(std::string_view bytes) {
  Reader reader("peer_info", bytes);
  PeerInfo them;
  them.endpoint.address = reader.str(kMaxHostBytes);
  them.endpoint.port = reader.u16();
  them.endpoint.host = reader.str(kMaxHostBytes);
  them.settings = reader.str(kMaxSettingsBytes);
  them.node_rank = reader.i32();
  them.cores.allowed = reader.str(kMaxCoreBytes);
  them.cores.quota = double(reader.u64()) / kQuotaUnits;
  them.memory = reader.str(kMaxMemoryBytes);
  them.table = reader.str(PeerInfo::kMaxTableBytes);
  reader.finish();
  return them;
}

}  // namespace anello::world
