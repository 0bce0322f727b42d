// The command line of a benchmark program: the flags of nccl-tests, so that nobody learns new ones. Pure.
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
  int iterations = 0;  // 0: as many as fit the budget
  int budget_ms = 500;
  int warmup = -1;   // -1: a tenth of them
  int checks = 1;    // calls whose every element is checked
  std::string json;  // file; empty: none
};

// Adds the flags of one operation to its subcommand. `options` is filled when that is parsed, and lives until then;
// what is wrong with a value ends the parsing in Error{configuration}.
void add_flags(CLI::App& command, Options& options);

// -b, -e, -f, -i and -s alone. `sizes` is filled when the command is parsed, and lives until then.
void add_size_flags(CLI::App& command, std::vector<std::uint64_t>& sizes);

DType wire_type(const std::string& given);  // of --wire: half or bfloat16

// As nccl-tests writes them: "float", "prod".
std::string_view short_name(DType dtype);
std::string_view short_name(Op op);

}  // namespace anello::bench
