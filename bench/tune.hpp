// `anello-bench tune`: measures every algorithm at every size in the world it is started in, beside what the library
// takes by itself, and writes the table that ANELLO_TABLE names. All ranks run it alike; rank 0 writes.
#pragma once
#include "bench/program.hpp"

namespace anello::bench {

Command tune_command();

}  // namespace anello::bench
