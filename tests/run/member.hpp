// One rank's part of an operation, carried out message by message over links with given contents. For tests.
#pragma once
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/run/message_execution.hpp"
#include "tests/run/runs_link.hpp"
#include "tests/support/signatures.hpp"

namespace anello::run {

// A plan for `count` words; for a kind with parts, `count` is the size of one rank's part.
inline plan::Plan plan_for(Kind kind, int rank, int world, std::uint64_t count,
                           Algorithm algorithm = Algorithm::one_shot) {
  Signature signature = operation(3, 0);
  signature.kind = kind;
  signature.algorithm = algorithm;
  signature.count = count;
  return algorithms::plan_of(signature, {.rank = rank, .world = world, .count = count});
}

// A rank's part of an operation in place; the other ranks send the contents of their links.
struct Member {
  Member(Kind kind, int its_rank, std::uint64_t count, Algorithm algorithm = Algorithm::one_shot, int world = 2)
      : rank(its_rank),
        plan(plan_for(kind, rank, world, count, algorithm)),
        words(numbers(count, 1)),
        of(std::size_t(world)),
        link(of[rank == 0 ? 1 : 0]) {
    signature.count = count;
    for (RunsLink& each : of) links.push_back(&each);
  }
  void start() { start(whole(words), whole(words), kLopsided); }
  void start(const Buffer& its_input, const Buffer& its_output, const Arithmetic& its_arithmetic,
             const std::optional<Scaling>& results = {}) {
    input = its_input;
    output = its_output;
    arithmetic = its_arithmetic;
    load = {.plan = &plan,
            .arithmetic = &arithmetic,
            .input = &input,
            .output = &output,
            .result_scaling = results,
            .signature = &signature,
            .links = links};
    execution.begin(load);
  }
  // Runs until nothing moves any more.
  void run() {
    while (execution.pass()) continue;
  }
  void send(int peer, const Words& data) { of[std::size_t(peer)].incoming += message(signature, data); }
  std::vector<std::pair<int, link::Wanted>> wanted() const {
    std::vector<std::pair<int, link::Wanted>> all;
    execution.each_wanted([&](const link::Link& of_it, link::Wanted what) {
      const auto is_it = [&](const link::Link* one) { return one == &of_it; };
      all.emplace_back(std::ranges::find_if(links, is_it) - links.begin(), what);
    });
    return all;
  }

  int rank;
  plan::Plan plan;
  Signature signature = operation(3, 0);
  Words words;
  std::vector<RunsLink> of;  // by rank
  std::vector<link::Link*> links;
  RunsLink& link;                   // the link to the first other rank
  std::optional<Signature> theirs;  // a peer's signature that differs
  Buffer input, output;
  Arithmetic arithmetic;
  Load load;
  MessageExecution execution{[this](int peer, const Signature& other) {
    theirs = other;
    return Error(ErrorCode::mismatch, "signatures differ", peer + 70);
  }};
};

}  // namespace anello::run
