#include "ring/world/peer_info.hpp"

#include <algorithm>
#include <anello/camps.hpp>
#include <anello/error.hpp>
#include <map>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"

namespace anello::world {
namespace {

constexpr std::size_t kMaxVersionBytes = 64;
constexpr std::size_t kMaxHostBytes = 255, kMaxSettingsBytes = 4096, kMaxKernelBytes = 255, kMaxMemoryBytes = 255,
                      kMaxCoreBytes = 8192;
constexpr double kQuotaUnits = 1000;  // number of units that stand for one core

}  // namespace

// The fields' order: values that are equal on all ranks; values that are equal on a host; other values; and again
// values that are equal on all ranks. The rendezvous sends only the differences between one rank and the next, and this
// order keeps the differences short.
std::string encode(const PeerInfo& me) {
  Writer writer;
  writer.str(me.version).u64(me.plans).str(me.endpoint.host.substr(0, kMaxHostBytes));
  writer.i32(me.node_rank).str(me.kernel).str(me.memory).str(me.endpoint.address).u16(me.endpoint.port);
  writer.u8(std::uint8_t(me.endpoint.further.size()));
  for (const net::Endpoint::Place& place : me.endpoint.further) writer.str(place.address).u16(place.port);
  writer.str(me.cores.allowed).u64(std::uint64_t(me.cores.quota * kQuotaUnits)).str(me.table).str(me.settings);
  return std::move(writer).take();
}

Build decode_build(std::string_view bytes) {
  Reader reader("peer_info", bytes);
  Build build{.version = reader.str(kMaxVersionBytes), .plans = reader.u64()};
  build.host = reader.str(kMaxHostBytes);
  return build;
}

void compare_builds(const std::vector<std::string>& blobs) {
  std::vector<Build> builds;
  std::map<int, std::pair<std::string, std::uint64_t>> by_rank;
  for (const std::string& blob : blobs) {
    const Build& its = builds.emplace_back(decode_build(blob));
    by_rank[int(builds.size()) - 1] = {its.version, its.plans};
  }
  const auto all = camps(by_rank);
  if (all.size() < 2) return;
  const auto &usual = all[0], &odd = odd_camp(all, blobs.size());
  const bool versions = usual.value.first != odd.value.first;
  const auto [one, other] = std::minmax(usual.ranks.front(), odd.ranks.front());
  const auto has = [&](int rank) {
    const Build& its = builds[std::size_t(rank)];
    return text("rank ", rank, " on ", printable(its.host), " has Anello ", printable(its.version),
                versions ? "" : text(" (plans ", its.plans, ")"));
  };
  throw Error(
      ErrorCode::mismatch,
      text(versions ? "the library's versions differ" : "the library's versions are equal, but its algorithms differ",
           ": ", has(one), ", ", has(other), "; use the same build on all ranks"),
      rank_at_fault(all, blobs.size()));
}

PeerInfo decode_peer_info(std::string_view bytes) {
  Reader reader("peer_info", bytes);
  PeerInfo them;
  them.version = reader.str(kMaxVersionBytes);
  them.plans = reader.u64();
  them.endpoint.host = reader.str(kMaxHostBytes);
  them.node_rank = reader.i32();
  them.kernel = reader.str(kMaxKernelBytes);
  them.memory = reader.str(kMaxMemoryBytes);
  them.endpoint.address = reader.str(kMaxHostBytes);
  them.endpoint.port = reader.u16();
  const std::size_t further = reader.u8();
  if (further >= net::kMaxAddresses)
    throw Error(ErrorCode::protocol,
                text("peer_info: ", further, " further addresses, at most ", net::kMaxAddresses - 1, " are allowed"));
  for (std::size_t k = 0; k < further; k++) {
    net::Endpoint::Place& place = them.endpoint.further.emplace_back();
    place.address = reader.str(kMaxHostBytes);
    place.port = reader.u16();
  }
  them.cores.allowed = reader.str(kMaxCoreBytes);
  them.cores.quota = double(reader.u64()) / kQuotaUnits;
  them.table = reader.str(PeerInfo::kMaxTableBytes);
  them.settings = reader.str(kMaxSettingsBytes);
  reader.finish();
  return them;
}

}  // namespace anello::world
