// A process, a server and a world of the simulation.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "rendezvous/elastic/search_time.hpp"
#include "rendezvous/server/heir.hpp"
#include "tests/rendezvous/elastic_simulation.hpp"

namespace anello::rendezvous {

inline constexpr std::uint64_t kFirstState = 7;
inline constexpr std::chrono::milliseconds kSilence{5000}, kStartPatience{60000}, kBelowMinimum{600000};

// `anello rendezvous`, or the server of a process.
struct ElasticSimulation::Server {
  Server(const ElasticLimits& limits, Model* its_owner, Time now)
      : membership(limits, kStartPatience, 1), heir(limits, now), looked(now), owner(its_owner), serves(!its_owner) {}
  Membership membership;
  Heir heir;
  Time looked;  // when this server last checked whether it had been stopped
  Model* owner;
  bool alive = true;
  bool serves;
  bool is_away = false;
  std::uint64_t incarnation = 0, alarm = 0, turn = 0;
  std::map<MemberId, std::shared_ptr<Link>> links;
};

struct ElasticSimulation::Link {
  Server* server;
  Model* model;
  MemberId id;
  bool open = true;
  Time last_to_server{}, last_from_server{};
};

struct ElasticSimulation::World {
  std::uint32_t generation = 0;
  std::uint64_t job = 0;
  Peers peers;
  std::vector<Peers> earlier;                    // earlier worlds of rank 0 of this world
  std::map<std::uint64_t, std::size_t> commits;  // by commit: the number of ranks that have made it
  std::map<int, Model*> ranks;
  std::size_t size = 0;
  bool failed = false;
  bool disturbed = false;                 // an event has hit a process of this world
  std::optional<std::uint64_t> ended_at;  // the commit at which a rank has left the world as planned
  std::map<int, elastic::Report> reports;
  bool begun = false;
  std::vector<std::pair<Model*, std::function<void()>>> at_barrier;
  // The ranks that pass the last barrier, with their lives at that moment.
  std::vector<std::pair<Model*, std::uint64_t>> passing;
};

struct ElasticSimulation::Model {
  MemberId id = 0;
  Stage stage = Stage::entering;
  bool alive = true, stopped = false;
  bool on_side = false;        // the side of the process when the network is cut in two
  std::shared_ptr<Link> link;  // the connection with the process's server
  Server* heir = nullptr;      // the server in this process
  bool gone = false;           // the process's server has ended
  bool transfers = false;      // has asked a successor, which has not given it a place yet
  bool leaves = false;         // the process was asked to leave
  elastic::SearchTime search_time{kStartPatience, std::chrono::milliseconds(500), std::chrono::milliseconds(10000)};
  std::chrono::milliseconds for_each_address{0};
  Time agreed{};          // when the process sent its part of the newest exchange
  std::uint64_t job = 0;  // the job to which the process's state belongs
  Join join;
  Lineage lineage;
  std::uint64_t incarnation = 0;
  std::uint32_t generation = 0;
  int rank = -1, local_rank = -1;
  bool holds = false, clean = true;
  std::uint64_t revision = 0, state = kFirstState;
  CommitGate gate;
  bool begun = false;     // the server has said that the training has begun
  bool has_place = true;  // the server has not refused this process
  std::shared_ptr<World> world;
  // Changes with each stage, so that events that were planned for an earlier stage do not happen.
  std::uint64_t life = 0;
  std::vector<std::function<void()>> while_stopped;

  Peer peer() const { return {join.host, std::uint16_t(id), std::uint32_t(id)}; }
};

}  // namespace anello::rendezvous
