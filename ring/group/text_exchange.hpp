// Exchanges texts between the ranks of a group, and checks that all ranks have equal values. Collective: all ranks of
// the group call the same function in the same order. Each call blocks and throws like the group's collectives.
// `options` are used for each operation of the call. Not for hot paths.
#pragma once
#include <anello/group.hpp>
#include <span>
#include <string>
#include <vector>

namespace anello::group {

// Returns the root's text on every rank; ignores the texts of the other ranks.
std::string broadcast_text(int root, Group& group, std::string mine, const Options& options);

// Returns the texts of all ranks on every rank, ordered by rank in the group. The texts may have different lengths.
std::vector<std::string> gather_text(Group& group, std::string_view mine, const Options& options);

// A value that must be equal on all ranks: its name and its text, as error messages show them.
struct NamedValue {
  std::string name, value;
  friend bool operator==(const NamedValue&, const NamedValue&) = default;
};

// Compares the lists of all ranks with rank 0's list. If a list differs, throws Error{mismatch} on all ranks. The
// message has the first difference of the first rank that differs: "size differs: 3 on rank 0, 4 on rank 2". An entry
// that a list lacks is shown as "none". The group can be used afterwards.
void require_same(Group& group, std::span<const NamedValue> mine, const Options& options);

}  // namespace anello::group
