// A table of one's own for choose(), as text: `anello-bench tune` writes it, ANELLO_TABLE names it. A line a row:
//   world hosts medium cores  bytes  algorithm slab
//   4     1     memory shared 65536  star      suitable
//   4     1     memory shared any    ring      1048576
// The first four words are a layout and must be as in the running world; bytes is the largest buffer that the row is
// for. `auto` leaves the choice to the library. What follows a # is a comment. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ring/algorithms/selection.hpp"

namespace anello::algorithms {

// "4 1 memory shared".
std::string layout(const Facts& facts);

// In order: the first row that fits is taken. Throws Error{configuration} that names the line and what is wrong.
Table parse_table(std::string_view text);

std::string to_text(const TableRow& row);  // a line
std::string table_headline();              // a comment

}  // namespace anello::algorithms
