// A simulated world with its weather (how links and ranks behave) and its ranks' operations, drawn from a seed.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "tests/support/exercise.hpp"
#include "tests/support/simulation.hpp"

namespace anello {

extern const std::vector<int> kWorlds;

// One operation of all ranks: their memory, divided into pieces, their plans and their results. Half of the operations
// have plans for several hosts, which are drawn for each operation.
class StagedOperation {
 public:
  StagedOperation(const Exercise& exercise, Algorithm algorithm, std::uint64_t slab_elems, std::uint64_t sequence,
                  Random& random);

  Task task(int rank) const;
  std::string wrong(int rank) const;
  std::string description() const;

 private:
  using Pieces = std::vector<run::Buffer::Piece>;
  plan::Plan plan(int rank) const;
  run::Scaling scaling() const;

  Exercise exercise_;
  Signature signature_;
  std::optional<algorithms::Hosts> hosts_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<plan::Plan> plans_;
  std::vector<Pieces> inputs_, outputs_;
};

struct Scenario {
  int world = 1;
  Weather weather;
  Simulation::Groups groups;  // the world is the first
  std::vector<std::unique_ptr<StagedOperation>> operations;
  std::vector<std::vector<Task>> program;  // by rank

  Scenario(int world, Random& random);
  void add_group(Random& random);
  void add(const Exercise& exercise, Algorithm algorithm, std::uint64_t slab_elems, Random& random,
           std::size_t group = 0, bool blocks = true);
  void add_any(Random& random);             // in the world, one operation after another
  void add_any_in_a_group(Random& random);  // blocking and asynchronous operations
  Exercise draw_exercise(Kind kind, Random& random, std::size_t group = 0) const;
  std::string description() const;

  // Describes errors in the results of operations that their ranks consider complete; empty if there are none.
  std::string wrong(const Simulation::Outcome& outcome) const;

 private:
  struct Origin {
    std::size_t operation = 0;
    int member = 0;
  };
  std::vector<std::vector<Origin>> origins_;  // the operations to which the program's tasks belong
  std::vector<std::uint64_t> sequences_;      // sequence numbers of operations, by group
};

std::uint64_t draw_slab(std::uint64_t count, Random& random);
Algorithm draw_algorithm(Random& random);  // an algorithm of one level or of two

}  // namespace anello
