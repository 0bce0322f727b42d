#include "tests/support/scenario.hpp"

#include <algorithm>
#include <numeric>

#include "tests/support/kinds.hpp"

namespace anello {

const std::vector<int> kWorlds = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};
namespace {

const std::vector<DType> kDTypes = {DType::u8,  DType::f16, DType::f32,
                                    DType::f64, DType::i16, DType::boolean};  // types of 1, 2, 4 and 8 bytes
const std::vector<Op> kOps = {Op::sum,     Op::average, Op::min,    Op::max,
                              Op::product, Op::bit_and, Op::bit_or, Op::bit_xor};
const std::vector<Kind> kKinds = collectives();

// Divides the memory into a list of a few pieces.
std::vector<run::Buffer::Piece> cut(ConstTensor tensor, Random& random) {
  std::vector<run::Buffer::Piece> pieces;
  auto* data = static_cast<std::byte*>(const_cast<void*>(tensor.data));
  for (std::uint64_t at = 0; at < tensor.count;) {
    const std::uint64_t left = tensor.count - at;
    const std::uint64_t count = random.percent(50) ? left : random.from(1, left);
    pieces.push_back({at + count, data + at * size_bytes(tensor.dtype), count});
    at += count;
  }
  return pieces;
}

std::uint64_t draw_count(int world, const Weather& weather, Random& random) {
  const auto n = std::uint64_t(world);
  if (random.percent(40)) return std::max<std::uint64_t>(1, random.from(n - 1, n + 1));
  return random.from(1, weather.capacity_bytes < 100 ? 60 : 400);
}

}  // namespace

std::uint64_t draw_slab(std::uint64_t count, Random& random) {
  return random.percent(40) ? 0 : random.from(1, count + 1);
}

Algorithm draw_algorithm(Random& random) {
  const Algorithm algorithm = random.one_of(all_algorithms());
  return random.percent(70) ? algorithm : in_levels(random.one_of(all_levels()), algorithm);
}

StagedOperation::StagedOperation(const Exercise& exercise, Algorithm algorithm, std::uint64_t slab_elems,
                                 std::uint64_t sequence, Random& random)
    : exercise_(exercise) {
  signature_.sequence = sequence;
  signature_.count = exercise.count;
  signature_.slab_elems = slab_elems;
  signature_.root = facts_of(exercise.kind).root != Root::none ? exercise.root : -1;
  signature_.kind = exercise.kind;
  signature_.op = exercise.op;
  signature_.dtype = exercise.dtype;
  signature_.wire = exercise.wire.value_or(kAsTheyAre);
  signature_.algorithm = algorithm;
  std::vector<int> host_of_rank;
  for (int rank = 0; rank < exercise.world; rank++) host_of_rank.push_back(int(random.below(3)));
  if (random.percent(50)) hosts_.emplace(host_of_rank);
  for (int rank = 0; rank < exercise.world; rank++) {
    parts_.push_back(std::make_unique<Part>(exercise, rank));
    plans_.push_back(plan(rank));
    inputs_.push_back(cut(parts_.back()->input(), random));
    outputs_.push_back(cut(parts_.back()->output(), random));
  }
}

plan::Plan StagedOperation::plan(int rank) const {
  const algorithms::Shape shape{rank,
                                exercise_.world,
                                exercise_.count,
                                exercise_.root,
                                exercise_.counts(rank),
                                exercise_.received(rank),
                                hosts_ ? &*hosts_ : nullptr};
  return plan_of(signature_, shape);
}

Task StagedOperation::task(int rank) const {
  const auto r = std::size_t(rank);
  return {&plans_[r],
          run::arithmetic(exercise_.dtype, exercise_.op, exercise_.wire.value_or(exercise_.dtype)),
          run::Buffer(inputs_[r]),
          run::Buffer(outputs_[r]),
          signature_,
          scaling()};
}

run::Scaling StagedOperation::scaling() const {
  const double divisor = exercise_.op == Op::average ? exercise_.world : 1;
  return run::scaling(exercise_.dtype, divisor, exercise_.postscale);
}

std::string StagedOperation::wrong(int rank) const {
  return exercise_.kind == Kind::barrier ? "" : parts_[std::size_t(rank)]->wrong();
}

std::string StagedOperation::description() const {
  return text(describe(exercise_), " by ", name(Algorithm(signature_.algorithm)), ", slabs of ", signature_.slab_elems,
              hosts_ ? text(", on ", hosts_->count(), " hosts") : "");
}

Scenario::Scenario(int world_, Random& random)
    : world(world_),
      weather(draw_weather(random)),
      groups{std::vector<int>(std::size_t(world_))},
      program(std::size_t(world_)),
      origins_(std::size_t(world_)),
      sequences_(1) {
  std::iota(groups[0].begin(), groups[0].end(), 0);
}

// Adds a group of some of the ranks, in any order.
void Scenario::add_group(Random& random) {
  std::vector<int> members = groups[0];
  random.shuffle(members);
  members.resize(random.from(1, members.size()));
  groups.push_back(std::move(members));
  sequences_.push_back(0);
}

void Scenario::add(const Exercise& exercise, Algorithm algorithm, std::uint64_t slab_elems, Random& random,
                   std::size_t group, bool blocks) {
  operations.push_back(std::make_unique<StagedOperation>(exercise, algorithm, slab_elems, sequences_[group]++, random));
  for (int member = 0; member < exercise.world; member++) {
    const auto rank = std::size_t(groups[group][std::size_t(member)]);
    Task task = operations.back()->task(member);
    task.group = group;
    task.blocks = blocks;
    program[rank].push_back(task);
    origins_[rank].push_back({operations.size() - 1, member});
  }
}

void Scenario::add_any_in_a_group(Random& random) {
  const std::size_t group = random.below(groups.size());
  const Exercise exercise = draw_exercise(random.one_of(kKinds), random, group);
  const Algorithm algorithm = draw_algorithm(random);
  const std::uint64_t slab = draw_slab(exercise.count, random);
  add(exercise, algorithm, slab, random, group, random.percent(40));
}

void Scenario::add_any(Random& random) {
  const Exercise exercise = draw_exercise(random.one_of(kKinds), random);
  const Algorithm algorithm = draw_algorithm(random);
  add(exercise, algorithm, draw_slab(exercise.count, random), random);
}

Exercise Scenario::draw_exercise(Kind kind, Random& random, std::size_t group) const {
  Exercise exercise;
  exercise.kind = kind;
  exercise.world = int(groups[group].size());
  exercise.count = kind == Kind::barrier ? 1 : draw_count(exercise.world, weather, random);
  exercise.dtype = kind == Kind::barrier ? DType::u8 : random.one_of(kDTypes);
  do {
    exercise.op = random.one_of(kOps);
  } while (!can_reduce(exercise.dtype, exercise.op));
  exercise.root = int(random.below(groups[group].size()));
  exercise.in_place = kind != Kind::alltoall && random.percent(50);
  exercise.uneven = facts_of(kind).parts && random.percent(30);
  const bool wide = exercise.dtype == DType::f32 || exercise.dtype == DType::f64;
  if (wide && facts_of(kind).reduces && random.percent(60))
    exercise.wire = random.percent(50) ? DType::f16 : DType::bf16;
  if (is_float(exercise.dtype) && (exercise.op == Op::sum || exercise.op == Op::average) && random.percent(60))
    exercise.postscale = 4;
  return exercise;
}

std::string Scenario::description() const {
  std::string all;
  for (const auto& operation : operations) all += operation->description() + "\n";
  return all;
}

std::string Scenario::wrong(const Simulation::Outcome& outcome) const {
  for (std::size_t rank = 0; rank < origins_.size(); rank++)
    for (std::size_t k = 0; k < outcome.done[rank].size(); k++) {
      const Origin& origin = origins_[rank][k];
      if (!outcome.done[rank][k]) continue;
      if (const std::string wrong = operations[origin.operation]->wrong(origin.member); !wrong.empty()) return wrong;
    }
  return {};
}

}  // namespace anello
