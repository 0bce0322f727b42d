#include "rendezvous/launch/doctor/link_measurement.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "rendezvous/launch/doctor/tournament.hpp"
#include "ring/base/wall_clock.hpp"
#include "ring/group/text_exchange.hpp"

namespace anello::launch {
namespace {

constexpr int kWarmUp = 5, kRoundTrips = 100;
constexpr std::size_t kBlockBytes = std::size_t(1) << 20;
constexpr std::uint64_t kFirstBlocks = 4, kMaxBlocks = 512;
constexpr double kRateSeconds = 0.1;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The two ranks of a pair run the two sides of one conversation: `from` asks, `to` answers.
class Conversation {
 public:
  Conversation(World& world, int other) : world_(world), other_(other) {}

  // Takes the clocks' offset from the fastest round trip: F. Cristian, Probabilistic clock synchronization, 1989.
  void ask_for_time(LinkMeasurement& link) {
    std::vector<double> round_trips;
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = -kWarmUp; i < kRoundTrips; i++) {
      const double began = steady_seconds(), sent = double(wall_clock_us());
      send(sent);
      const double theirs = receive();
      const double took = (steady_seconds() - began) * 1e6;
      if (i < 0) continue;
      round_trips.push_back(took);
      if (took >= fastest) continue;
      fastest = took;
      link.clock_offset_us = theirs - (sent + took / 2);
    }
    link.latency_us = median(std::move(round_trips)) / 2;
  }

  void answer_with_time() {
    for (int i = -kWarmUp; i < kRoundTrips; i++) {
      receive();
      send(double(wall_clock_us()));
    }
  }

  // Returns bytes/s. A short burst first shows how many blocks take kRateSeconds. The receiver's answer ends the
  // measurement.
  double send_blocks() {
    const double first = burst(kFirstBlocks);
    const double wanted = first * kRateSeconds / double(kBlockBytes);
    return burst(std::uint64_t(std::clamp(wanted, 1.0, double(kMaxBlocks))));
  }

  void receive_blocks() {
    for (int burst = 0; burst < 2; burst++) {
      for (double blocks = receive(); blocks > 0; blocks--) world_.recv(std::span(block_), other_);
      send(0);
    }
  }

  void send(double value) { world_.send(std::span<const double>(&value, 1), other_); }
  double receive() {
    double value = 0;
    world_.recv(std::span(&value, 1), other_);
    return value;
  }

 private:
  double burst(std::uint64_t blocks) {
    send(double(blocks));
    const double began = steady_seconds();
    for (std::uint64_t i = 0; i < blocks; i++) world_.send(std::span<const std::uint8_t>(block_), other_);
    receive();
    return double(blocks * kBlockBytes) / (steady_seconds() - began);
  }

  World& world_;
  const int other_;
  std::vector<std::uint8_t> block_ = std::vector<std::uint8_t>(kBlockBytes);
};

// Both ranks of the pair call this. Only the result on `from` is valid.
LinkMeasurement measure(World& world, int from, int to) {
  LinkMeasurement link{.from = from, .to = to};
  Conversation conversation(world, world.rank() == from ? to : from);
  if (world.rank() == from) {
    conversation.ask_for_time(link);
    link.rate = conversation.send_blocks();
    conversation.receive_blocks();
    link.back_rate = conversation.receive();
  } else {
    conversation.answer_with_time();
    conversation.receive_blocks();
    conversation.send(conversation.send_blocks());
  }
  return link;
}

// Returns the first two ranks of each host, by host; -1 in place of a second rank that does not exist.
std::vector<std::pair<int, int>> first_ranks(const std::vector<Place>& places, int hosts) {
  std::vector<std::pair<int, int>> first(std::size_t(hosts), {-1, -1});
  for (std::size_t rank = 0; rank < places.size(); rank++) {
    auto& [leader, second] = first[std::size_t(places[rank].node)];
    if (places[rank].local_rank == 0) leader = int(rank);
    if (places[rank].local_rank == 1) second = int(rank);
  }
  return first;
}

}  // namespace

std::vector<Place> gather_places(World& world) {
  const std::vector<std::int32_t> mine = {world.node_rank(), world.local_rank()};
  std::vector<std::int32_t> all(2 * std::size_t(world.size()));
  world.allgather(mine, all, {.name = "places"});
  std::vector<Place> places;
  for (std::size_t i = 0; i < all.size(); i += 2) places.push_back({all[i], all[i + 1]});
  return places;
}

std::vector<LinkMeasurement> measure_links(World& world, const std::vector<Place>& places) {
  std::vector<LinkMeasurement> mine;
  const auto take_part = [&](int from, int to) {
    if (world.rank() != from && world.rank() != to) return;
    const LinkMeasurement link = measure(world, from, to);
    if (world.rank() == from) mine.push_back(link);
  };
  const auto first = first_ranks(places, world.node_count());
  for (const auto& [leader, second] : first)
    if (second >= 0) take_part(leader, second);
  for (const Round& round : tournament(world.node_count())) {
    world.barrier();
    for (const auto& [one, other] : round) take_part(first[std::size_t(one)].first, first[std::size_t(other)].first);
  }
  const std::vector<std::string> all = group::gather_text(world, encode(mine), {.name = "links"});
  if (world.rank() != 0) return mine;
  std::vector<LinkMeasurement> links;
  for (const std::string& part : all)
    for (const LinkMeasurement& link : decode_links(part)) links.push_back(link);
  return links;
}

std::string encode(const std::vector<LinkMeasurement>& links) {
  nlohmann::json json = nlohmann::json::array();
  for (const LinkMeasurement& link : links)
    json.push_back({link.from, link.to, link.latency_us, link.rate, link.back_rate, link.clock_offset_us});
  return json.dump();
}

std::vector<LinkMeasurement> decode_links(std::string_view text) try {
  std::vector<LinkMeasurement> links;
  for (const auto& json : nlohmann::json::parse(text))
    links.push_back({json.at(0), json.at(1), json.at(2), json.at(3), json.at(4), json.at(5)});
  return links;
} catch (const nlohmann::json::exception& error) {
  throw Error(ErrorCode::protocol, std::string("a rank's measurements cannot be read: ") + error.what());
}

}  // namespace anello::launch
