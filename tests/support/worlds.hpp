// Common code of tests of whole worlds: carries out an exercise on a rank, and collects the error of each rank.
#pragma once
#include <anello/testing.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/exercise.hpp"
#include "tests/support/starvation.hpp"

namespace anello {

// Carries out this rank's part of an exercise. Returns a description of a wrong result, or an empty text.
inline std::string carry_out(Group& world, Exercise exercise) {
  exercise.world = world.size();
  if (exercise.kind == Kind::broadcast) exercise.in_place = true;
  Part part(exercise, world.rank());
  const std::vector<std::uint64_t> counts = exercise.counts(world.rank()), received = exercise.received(world.rank());
  const ReduceOptions options{.algorithm = exercise.kind == Kind::allreduce ? name(exercise.algorithm) : "",
                              .wire = exercise.wire,
                              .prescale = exercise.prescale,
                              .postscale = exercise.postscale,
                              .counts = counts};
  switch (exercise.kind) {
    case Kind::allreduce:
      if (exercise.in_place)
        world.allreduce(part.output(), exercise.op, options);
      else
        world.allreduce(part.input(), part.output(), exercise.op, options);
      break;
    case Kind::broadcast:
      world.broadcast(part.output(), exercise.root);
      break;
    case Kind::allgather:
      world.allgather(part.input(), part.output(), {.counts = counts});
      break;
    case Kind::reduce_scatter:
      world.reduce_scatter(part.input(), part.output(), exercise.op, options);
      break;
    case Kind::barrier:
      world.barrier();
      return {};
    case Kind::reduce:
      if (exercise.in_place)
        world.reduce(part.in_place(), exercise.root, exercise.op, options);
      else
        world.reduce(part.input(), part.output(), exercise.root, exercise.op, options);
      break;
    case Kind::gather:
      world.gather(part.input(), part.output(), exercise.root, {.counts = counts});
      break;
    case Kind::scatter:
      world.scatter(part.input(), part.output(), exercise.root, {.counts = counts});
      break;
    case Kind::transfer:
      return "there is no such exercise";
    case Kind::alltoall:
      if (exercise.uneven)
        world.alltoall(part.input(), part.output(), counts, received);
      else
        world.alltoall(part.input(), part.output());
      break;
  }
  return part.wrong();
}

// Throws if the result is wrong.
inline void carry_out_right(Group& world, const Exercise& exercise) {
  const std::string wrong = carry_out(world, exercise);
  if (!wrong.empty()) throw std::runtime_error(wrong);
}

// The exception of a rank's program, and the time from the program's beginning to this exception.
struct Told {
  int rank = -1;
  std::optional<Error> error;
  std::chrono::steady_clock::duration after{};
  std::chrono::milliseconds lateness{0};  // how late errors may be on this machine
};

using Program = std::function<void(World&)>;

// run(program) is a run_world() of `ranks` ranks. An error on one rank does not abort the others: each ends by itself.
inline std::vector<Told> collect_told(const std::function<void(const Program&)>& run, int ranks,
                                      const Program& program) {
  std::vector<Told> all(static_cast<std::size_t>(ranks));
  Starvation starvation;
  run([&](World& world) {
    Told& told = all[std::size_t(world.rank())];
    told.rank = world.rank();
    const auto began = std::chrono::steady_clock::now();
    try {
      program(world);
    } catch (const Error& e) {
      told.error = e;
    }
    told.after = std::chrono::steady_clock::now() - began;
  });
  for (Told& told : all) told.lateness = lateness(starvation.longest());
  return all;
}

inline std::vector<Told> told_on_all_ranks(int ranks, const Program& program,
                                           const Settings& settings = Settings::from_environment()) {
  return collect_told([&](const Program& telling) { run_world(ranks, telling, settings); }, ranks, program);
}

}  // namespace anello
