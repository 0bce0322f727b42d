// The user's table for choose(), as text. `anello-bench tune` writes it, and ANELLO_TABLE has its path. Each line is a
// row:
//   world hosts medium cores  bytes  algorithm slab
//   4     1     memory shared 65536  star      suitable
//   4     1     memory shared any    ring      1048576
// The first four words are a layout and must match the running world; bytes is the largest buffer to which the row
// applies. `auto` leaves the choice to the library. A # begins a comment. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ring/algorithms/selection.hpp"

namespace anello::algorithms {

// Returns the layout as text, such as "4 1 memory shared".
std::string layout(const Facts& facts);

// Keeps the order of the rows, because choose() takes the first matching row. Throws Error{configuration} that names
// the line and the problem.
Table parse_table(std::string_view text);

std::string to_text(const TableRow& row);  // one line
std::string table_headline();              // a comment line

}  // namespace anello::algorithms
