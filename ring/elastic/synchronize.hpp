// Gives all ranks of a new world the same state. A collective of the world's ranks; uses the thread that calls it.
#pragma once
#include <anello/elastic_state.hpp>
#include <anello/world.hpp>
#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ring/base/bytes.hpp"
#include "ring/elastic/decision.hpp"

namespace anello::elastic {

// The result of a synchronization. It is equal on all ranks, except for the time.
struct Synchronized {
  std::uint64_t revision = 0;
  std::vector<int> sources, receivers;  // ascending
  std::uint64_t bytes = 0;              // the size of the entries that each receiver got; 0 if there is no receiver
  std::chrono::nanoseconds took{0};
};

// Every rank calls it before it uses the world for something else, and blocks until the state is complete. Each source
// sends a part of the entries to the receivers, and receives nothing. Then all ranks compare the hashes of all entries;
// if `verify` is false, the first source sends everything, and nothing is compared. Only after that do receivers hold
// the state. `begun`: see decide(); it counts as true if at least one rank passes true.
//
// Throws the errors of decide(); if manifests differ, the error names the first entry that differs. If hashes differ,
// throws Error{diverged}. After these errors, which all ranks throw, the world is in order. Also throws the errors of
// collectives; then the world has failed. After any error during the transfer or the comparison, the receivers are not
// clean, and the sources are unchanged.
Synchronized synchronize(World& world, State& state, bool begun, bool verify = true);

// Both functions together do the work of synchronize(), for a program that sends its state itself between the two
// calls; `state` has no entries. The first part decides which ranks send and which receive. `manifest` describes the
// program's entries, one line for each; an error names the first line that differs. The second part compares the names
// and the hashes of the entries. It throws Error{mismatch} if the names differ.
Decision begin_synchronization(World& world, State& state, std::string_view manifest, bool begun);
// Call this between the two parts. It does the same as transfer(), for memory that no manifest describes. If sizes
// differ, throws Error{mismatch} on all ranks.
[[nodiscard]] std::vector<Group> deliver(World& world, const Decision& decision, std::span<const Bytes> memory);
void end_synchronization(World& world, State& state, const Decision& decision, const std::vector<EntryHash>& entries);

// Compares the states of all ranks after the same commit. If an entry differs, throws Error{diverged} on all ranks.
// Also throws the errors of collectives. The second form is for a program whose `state` has no entries. If the names
// differ, it throws Error{mismatch}.
void compare(World& world, const State& state);
void compare(World& world, const State& state, const std::vector<EntryHash>& entries);

}  // namespace anello::elastic
