// Exchanges the reports of all ranks of a new world. From these reports each rank finds out which ranks have the state.
// Collective; uses the calling thread.
#pragma once
#include <anello/world.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ring/elastic/contents.hpp"
#include "ring/elastic/decision.hpp"
#include "ring/group/text_exchange.hpp"

namespace anello::elastic {

// Returns the names, kinds and sizes of all entries, as an error shows them, and whether they are compared.
std::vector<group::NamedValue> manifest_of(const Contents& state, bool verify);

// Returns the manifest of a program that sends its state itself; `lines` has a line for each entry.
std::vector<group::NamedValue> manifest_of(std::string_view lines);
std::string entry_name(std::size_t number);

Report report_of(const Contents& state, const std::vector<group::NamedValue>& manifest);

struct Reports {
  std::vector<Report> by_rank;
  bool begun = false;  // true if one rank or more passed `begun` as true
};

// All ranks call it. Blocks, and throws the errors of allgather.
Reports gather_reports(World& world, const Report& mine, bool begun);

}  // namespace anello::elastic
