// A process and a world of the simulation.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/rendezvous/elastic_simulation.hpp"

namespace anello::rendezvous {

inline constexpr std::uint64_t kFirstState = 7;

struct ElasticSimulation::World {
  std::uint32_t generation = 0;
  std::map<int, Model*> ranks;
  std::size_t size = 0;
  bool failed = false;
  bool disturbed = false;                 // something has happened to one of its processes
  std::optional<std::uint64_t> ended_at;  // the commit at which a rank has left it as planned
  std::map<int, elastic::Report> reports;
  bool begun = false;
  std::vector<std::pair<Model*, std::function<void()>>> at_barrier;
  std::vector<std::pair<Model*, std::uint64_t>> passing;  // the last barrier; with the lives at that moment
};

struct ElasticSimulation::Model {
  MemberId id = 0;
  Stage stage = Stage::entering;
  bool alive = true, stopped = false, connected = true;
  std::uint32_t generation = 0;
  int rank = -1, local_rank = -1;
  bool holds = false, clean = true;
  std::uint64_t revision = 0, state = kFirstState;
  CommitGate gate;
  bool begun = false;     // the server said so
  bool has_place = true;  // the server has not refused it
  std::shared_ptr<World> world;
  std::uint64_t life = 0;  // changes with each stage, so that what was planned for an earlier one does not happen
  Time last_to_server{}, last_from_server{};
  std::vector<std::function<void()>> while_stopped;
};

}  // namespace anello::rendezvous
