// Builds a plan. An algorithm emits steps in program order, as if each step were complete before the next one begins.
// From the memory that steps read and write, the builder derives which steps must wait for which other steps, and for
// how many elements. No dependency is written by hand. Used by one thread. After finish() the builder cannot be used.
#pragma once
#include <array>
#include <span>

#include "ring/plan/plan.hpp"

namespace anello::plan {

class PlanBuilder {
 public:
  // `frame`: a plan without steps, with the rank, the world, and the sizes and bases of input and output.
  explicit PlanBuilder(Plan frame) : plan_(std::move(frame)) {}
  int rank() const { return subset_.members.empty() ? plan_.rank : subset_.rank; }
  int world() const { return subset_.members.empty() ? plan_.world : int(subset_.members.size()); }

  // A step without elements is left out. (The peer also leaves out its matching step.)
  void send(int peer, Range range, Operand from);
  void copy(int peer, Range range, Operand to);
  void reduce(int peer, Range range, Operand to, Operand local);  // the lower rank's operand is the left one
  void fold(Range range, Operand to, std::span<const Operand> sources);

  // Shorter forms of send() and copy() for ranges in the input or output.
  void send(int peer, Range range, Space from) { send(peer, range, at(from, range)); }
  void copy(int peer, Range range) { copy(peer, range, at(Space::output, range)); }
  void reduce(int peer, Range range, Space local) { reduce(peer, range, at(Space::output, range), at(local, range)); }
  void fold(Range range, std::span<const Operand> sources) { fold(range, at(Space::output, range), sources); }

  // Marks the step that was emitted last: its value is the result, or a part of the result. The builder itself marks
  // the last reduction into each part of the output. Call this for a reduction into scratch, and for a single
  // contribution.
  void makes_result();

  // Rounds the output as sending would round it, if elements are sent in a narrower type. Otherwise does nothing.
  void round(Range range) { fold(range, std::array{at(Space::output, range)}); }

  Operand at(Space space, Range range) const;  // `space`: the input or the output
  Operand scratch(std::uint64_t elems);        // memory for intermediate results of this slab

  // Calls emit(), which adds steps only among `members`; this rank must be one of them. Until emit() returns, rank(),
  // world() and peers are positions in `members`, and input is read from `contributions`. So an algorithm for a whole
  // world can also be used for some of its ranks, and can add up the results of earlier steps in the output. In a
  // nested call, `members` are positions in the outer call's `members`.
  template <class Emit>
  void among(std::span<const int> members, Space contributions, Emit emit) {
    Subset before = begin_among(members, contributions);
    emit();
    subset_ = std::move(before);
  }

  void pairwise() { plan_.pairwise = true; }  // sets Plan::pairwise

  // The steps that follow belong to this slab. Steps of several slabs may alternate. Slabs use the two halves of the
  // scratch in turn, so that a slab can begin before the previous slab has ended. Only sums use scratch, and they use
  // it in the order of slabs.
  void slab(std::uint64_t index);
  std::uint64_t slab() const { return slab_; }

  Plan finish() &&;

 private:
  struct Item {
    Step step;  // without sources and dependencies, which are in sources_ and deps_
    std::int32_t peer = -1;
    bool second_half = false;  // true if the step uses the second half of the scratch
  };
  // The ranks for which steps are written.
  struct Subset {
    std::vector<int> members;  // ranks of the world; empty: all ranks
    int rank = 0;              // this rank's position among the members
    Space contributions = Space::input;
  };
  int rank_of(int peer) const { return subset_.members.empty() ? peer : subset_.members[std::size_t(peer)]; }
  Subset begin_among(std::span<const int> members, Space contributions);  // returns the subset before this call
  void add(Act act, int peer, Range range, Operand place, std::span<const Operand> sources);
  void place_scratch();
  void number_streams();
  void group_by_stream();
  void derive_deps();
  void mark_results();
  void mark_replies();
  void assemble();

  Plan plan_;
  Subset subset_;
  std::vector<Item> items_;  // in program order, as are the members below except by_stream_
  std::vector<Operand> sources_;
  std::vector<Dep> deps_;
  std::vector<std::uint32_t> position_;   // by item: its index in the plan's steps
  std::vector<std::uint32_t> by_stream_;  // by step of the plan: the step's item
  std::uint64_t slab_ = 0, slabs_ = 1, scratch_max_ = 0;
  std::array<std::uint64_t, 2> scratch_used_{};  // the number of elements that are used, by half of the scratch
};

}  // namespace anello::plan
