// How an algorithm writes a plan: it emits steps in program order, as if each were complete before the next began; the
// builder derives from what the steps read and write which of them really have to wait, and for how much. No
// dependency is written by hand. Used by one thread, thrown away by finish().
#pragma once
#include <array>
#include <span>

#include "ring/plan/plan.hpp"

namespace anello::plan {

class PlanBuilder {
 public:
  // `frame` is a plan without steps: rank, world, and the sizes and bases of input and output.
  explicit PlanBuilder(Plan frame) : plan_(std::move(frame)) {}
  int rank() const { return subset_.members.empty() ? plan_.rank : subset_.rank; }
  int world() const { return subset_.members.empty() ? plan_.world : int(subset_.members.size()); }

  // Steps of no elements are left out; the peer leaves its side out likewise.
  void send(int peer, Range range, Operand from);
  void copy(int peer, Range range, Operand to);
  void reduce(int peer, Range range, Operand to, Operand local);  // the lower rank's operand stands on the left
  void fold(Range range, Operand to, std::span<const Operand> sources);

  // The same where the range lies in input or output.
  void send(int peer, Range range, Space from) { send(peer, range, at(from, range)); }
  void copy(int peer, Range range) { copy(peer, range, at(Space::output, range)); }
  void reduce(int peer, Range range, Space local) { reduce(peer, range, at(Space::output, range), at(local, range)); }
  void fold(Range range, std::span<const Operand> sources) { fold(range, at(Space::output, range), sources); }

  // The step that was emitted last makes the result, or a part of it. The builder sees that of what reduces into the
  // output for the last time; not in scratch, and not of a contribution that is the only one.
  void makes_result();

  // Where elements travel as a narrower type: rounds the output as if it had been sent. Otherwise nothing happens.
  void round(Range range) { fold(range, std::array{at(Space::output, range)}); }

  Operand at(Space space, Range range) const;  // input or output
  Operand scratch(std::uint64_t elems);        // memory for intermediate results of this slab

  // Calls emit(), which adds steps among `members` only; this rank is one of them. Until emit() returns, rank(),
  // world() and peers are positions in `members`, and input is read from `contributions`. So an algorithm for a whole
  // world also serves some of its ranks, and can add up what earlier steps left in the output. In a nested call,
  // `members` are positions in the outer call's `members`.
  template <class Emit>
  void among(std::span<const int> members, Space contributions, Emit emit) {
    Subset before = begin_among(members, contributions);
    emit();
    subset_ = std::move(before);
  }

  void pairwise() { plan_.pairwise = true; }  // Plan::pairwise

  // What follows belongs to this slab; steps of several slabs may take turns. Slabs use the two halves of the scratch
  // in turn, so that one can begin while the one before is still on its way; only sums take scratch, in their slabs'
  // order.
  void slab(std::uint64_t index);
  std::uint64_t slab() const { return slab_; }

  Plan finish() &&;

 private:
  struct Item {
    Step step;  // its sources and dependencies are in sources_ and deps_
    std::int32_t peer = -1;
    bool second_half = false;  // of the scratch
  };
  // The ranks that what is written is for.
  struct Subset {
    std::vector<int> members;  // ranks of the world; empty: all
    int rank = 0;              // this rank's position among them
    Space contributions = Space::input;
  };
  int rank_of(int peer) const { return subset_.members.empty() ? peer : subset_.members[std::size_t(peer)]; }
  Subset begin_among(std::span<const int> members, Space contributions);  // returns the one before
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
  std::vector<Item> items_;  // in program order, as all that follows but by_stream_
  std::vector<Operand> sources_;
  std::vector<Dep> deps_;
  std::vector<std::uint32_t> position_;   // item -> its place in the plan's steps
  std::vector<std::uint32_t> by_stream_;  // and back
  std::uint64_t slab_ = 0, slabs_ = 1, scratch_max_ = 0;
  std::array<std::uint64_t, 2> scratch_used_{};  // of each half
};

}  // namespace anello::plan
