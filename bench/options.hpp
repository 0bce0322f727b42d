// The command line of a benchmark program. It has the flags of nccl-tests, because many users are familiar with them.
// Pure.
#pragma once
#include <anello/tensor.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sizes.hpp"

namespace CLI {
class App;
}

namespace anello::bench {

struct Options {
  std::vector<std::uint64_t> sizes;  // bytes of one rank's buffer
  std::vector<DType> dtypes{DType::f32};
  std::vector<Op> ops{Op::sum};
  int iterations = 0;  // 0: as many iterations as fit the budget
  int budget_ms = 500;
  int warmup = -1;        // -1: a tenth of the iterations
  int checks = 1;         // calls whose result is checked element by element
  bool loopback = false;  // whether the bytes over the loopback interface are counted
  std::string json;       // path of a file; empty: none
};

// Adds the flags of one operation to its subcommand. Parsing the command line fills `options`, which must live until
// then. A wrong value ends the parsing with Error{configuration}.
void add_flags(CLI::App& command, Options& options);

// Adds only the flags of sizes: -b, -e, -f, -i and -s.
void add_size_flags(CLI::App& command, std::vector<std::uint64_t>& sizes);

DType wire_type(const std::string& given);  // `given`: value of --wire: half or bfloat16

// Returns the name that nccl-tests uses: "float", "prod".
std::string_view short_name(DType dtype);
std::string_view short_name(Op op);

}  // namespace anello::bench
