// Two ranks in this process with listeners, routers and the links of one group, over loopback; without control planes.
#pragma once
#include <poll.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "ring/base/text.hpp"
#include "ring/net/data_links.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/net/link_router.hpp"

namespace anello::net {

struct Rank {
  // With `further` addresses, the two ranks count as if they were on different hosts.
  static Identity identity_of(int rank, std::uint32_t generation, std::vector<std::string> further = {}) {
    return {.job = "links",
            .generation = generation,
            .rank = rank,
            .size = 2,
            .host = further.empty() ? "here" : text("host", rank),
            .address = "127.0.0.1",
            .further_addresses = std::move(further)};
  }

  int rank;
  EventLoop background;
  trace::RejectedConnections rejected_connections;
  PeerConnections peer_connections;
  std::promise<Error> failed;
  LinkRouter router;
  std::shared_ptr<const link::GroupInfo> group;
  std::optional<DataLinks> links;

  Rank(int number, std::uint32_t generation, const LinkOptions& options, std::vector<std::string> further = {})
      : rank(number),
        peer_connections(background.context(), identity_of(rank, generation, std::move(further)), {},
                         rejected_connections, kHandshakeLimitOfTests),
        router(background.context(), peer_connections, rank, options,
               [this](std::uint64_t, const Error& why) { failed.set_value(why); }) {}
  ~Rank() { background.stop(); }

  static constexpr std::chrono::milliseconds kHandshakeLimitOfTests{200};

  // Makes the group.
  void begin(std::uint64_t number = 0) {
    const auto maker = router.begin(number);
    group = std::make_shared<const link::GroupInfo>(
        link::GroupInfo{.id = number, .name = "the group", .members = {0, 1}, .bell = maker->bell()});
    links.emplace(group, rank, maker);
  }
  void open(const Rank& first, const Rank& second) {
    peer_connections.open(
        {first.peer_connections.endpoint(), second.peer_connections.endpoint()},
        [this](const Claim& claim, PeerConnections::Socket socket) { router.accepted(claim, std::move(socket)); },
        [](int) {}, [this](const Claim& claim) { return router.has_room(claim); });
  }
  bool rings(int limit_ms = 10000) {
    pollfd polled{group->bell->descriptor(), POLLIN, 0};
    return poll(&polled, 1, limit_ms) == 1;
  }
  // Returns the link to the other rank; null if the link does not come within the limit.
  link::Link* link(int limit_ms = 10000) {
    link::Link* found = links->find(1 - rank);
    while (!found && rings(limit_ms)) {
      group->bell->hush();
      found = links->find(1 - rank);
    }
    return found;
  }
};

inline LinkOptions over(bool memory, std::size_t pipe_bytes = 4096, std::size_t connections = 1) {
  return {{memory, memory}, pipe_bytes, false, connections};
}

struct TwoRanks {
  Rank low, high;
  explicit TwoRanks(const LinkOptions& options = over(false), std::uint32_t generation_of_high = 1,
                    bool low_makes_group = true, const std::vector<std::string>& further_of_low = {},
                    const std::vector<std::string>& further_of_high = {})
      : low(0, 1, options, further_of_low), high(1, generation_of_high, options, further_of_high) {
    if (low_makes_group) low.begin();
    high.begin();
    low.open(low, high);
    high.open(low, high);
  }
};

}  // namespace anello::net
