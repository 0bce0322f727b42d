// Worlds of many ranks: the bytes that their start takes, counted, and a start of many light clients.
#include <gmock/gmock.h>

#include <anello/version.hpp>
#include <iostream>

#include "rendezvous/protocol.hpp"
#include "ring/algorithms/fingerprint.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/world/peer_info.hpp"

namespace anello::rendezvous {
namespace {

constexpr int kRanksOfAHost = 8;

// What rank `rank` tells the others, on hosts as they are in clusters, with cores of its own.
std::string blob_of(int rank) {
  const int host = rank / kRanksOfAHost;
  world::PeerInfo info{std::string(version()), algorithms::build_fingerprint()};
  info.endpoint.host = text("node", 10000 + host);
  info.endpoint.address = text("10.1.", host / 250, ".", host % 250);
  info.endpoint.port = std::uint16_t(40000 + rank % 9973);
  info.settings = wire_settings(Settings());
  info.node_rank = host;
  info.cores.allowed = std::string(16, '\0');
  info.cores.allowed[std::size_t(rank % kRanksOfAHost)] = '\xff';
  info.memory = text(10000 + host, "fae-7dec-11d0-a765-00a0c91e6bf6/4026531840/1000");
  return world::encode(info);
}

class BytesOfAStart : public testing::TestWithParam<int> {};

TEST_P(BytesOfAStart, hold_what_is_equal_on_all_ranks_once) {
  const int ranks = GetParam();
  Gathered gathered;
  std::size_t sent = 0, plain = 5;
  for (int rank = 0; rank < ranks; rank++) {
    gathered.blobs.push_back(blob_of(rank));
    sent += encode(Request(Contribution{gathered.blobs.back()})).size();
    plain += 4 + gathered.blobs.back().size();
  }
  const std::size_t reply = encode(Reply(gathered)).size();
  const auto world = [&](std::size_t received) { return double(sent + std::size_t(ranks) * received) / 1e6; };
  std::cout << ranks << " ranks: " << plain << " bytes to each if blobs travel as they are, " << reply
            << " as deltas; in all " << world(plain) << " and " << world(reply) << " MB\n";
  const std::size_t first = gathered.blobs.front().size(), hosts = std::size_t(ranks / kRanksOfAHost) + 1;
  const std::size_t max_of_a_host = 110, max_of_a_rank = 24;
  EXPECT_LE(reply, 64 + first + hosts * max_of_a_host + std::size_t(ranks) * max_of_a_rank);
}

INSTANTIATE_TEST_SUITE_P(Ranks, BytesOfAStart, testing::Values(4, 64, 1024, 16384));

}  // namespace
}  // namespace anello::rendezvous
