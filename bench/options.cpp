#include "bench/options.hpp"

#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <array>
#include <memory>
#include <utility>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

template <class T>
using Named = std::pair<std::string_view, T>;

constexpr std::array kTypes = {
    Named<DType>{"float", DType::f32},     Named<DType>{"double", DType::f64}, Named<DType>{"half", DType::f16},
    Named<DType>{"bfloat16", DType::bf16}, Named<DType>{"int8", DType::i8},    Named<DType>{"uint8", DType::u8},
    Named<DType>{"int16", DType::i16},     Named<DType>{"uint16", DType::u16}, Named<DType>{"int32", DType::i32},
    Named<DType>{"uint32", DType::u32},    Named<DType>{"int64", DType::i64},  Named<DType>{"uint64", DType::u64},
};
constexpr std::array kOps = {Named<Op>{"sum", Op::sum}, Named<Op>{"prod", Op::product}, Named<Op>{"min", Op::min},
                             Named<Op>{"max", Op::max}, Named<Op>{"avg", Op::average}};

// Returns the values of the table that `given` names: all values, or one value by its short or full name.
template <class Table>
auto select(std::string_view flag, std::string_view given, const Table& table) {
  std::vector<decltype(table[0].second)> values;
  std::string names;
  for (const auto& [short_name, value] : table) {
    if (given == short_name || given == name(value) || given == "all") values.push_back(value);
    names += text(short_name, ", ");
  }
  if (values.empty()) throw Error(ErrorCode::configuration, text(flag, " '", given, "' is not one of ", names, "all"));
  return values;
}

template <class T, class Table>
std::string_view short_of(T wanted, const Table& table) {
  for (const auto& [short_name, value] : table)
    if (value == wanted) return short_name;
  return name(wanted);
}

}  // namespace

void add_size_flags(CLI::App& command, std::vector<std::uint64_t>& to) {
  const auto range = std::make_shared<SizeRange>();
  const auto size = [&command](const std::string& flags, std::uint64_t& field, const std::string& sentence) {
    const std::string flag = flags.substr(0, flags.find(','));
    return command.add_option_function<std::string>(
        flags, [flag, &field](const std::string& given) { field = parse_size(flag, given); }, sentence);
  };
  auto* begin = size("-b,--minbytes", range->begin, "first size: 4, 64K, 256M, 1G (4)")->type_name("SIZE");
  auto* end = size("-e,--maxbytes", range->end, "last size (64M; if -b is given, its size)")->type_name("SIZE");
  auto* factor = command.add_option("-f,--stepfactor", range->factor, "factor from one size to the next (4)");
  auto* step = size("-i,--stepbytes", range->increment, "bytes from one size to the next, instead of a factor")
                   ->type_name("SIZE");
  const auto list = std::make_shared<std::vector<std::uint64_t>>();
  command
      .add_option_function<std::vector<std::string>>(
          "-s,--sizes",
          [list](const std::vector<std::string>& given) {
            for (const std::string& each : given) list->push_back(parse_size("-s", each));
          },
          "these sizes instead: 4,8K,1M")
      ->delimiter(',')
      ->type_name("LIST")
      ->excludes(begin, end, factor, step);
  command.final_callback([=, &to] {
    if (begin->count() > 0 && end->count() == 0) range->end = range->begin;
    if (step->count() > 0 && range->increment == 0) throw Error(ErrorCode::configuration, "-i 0: sizes must grow");
    to = list->empty() ? sizes(*range) : *list;
  });
}

namespace {

void add_number(CLI::App& command, const std::string& flags, int& to, long min, const std::string& sentence) {
  constexpr long kMax = 100'000'000;
  const std::string flag = flags.substr(0, flags.find(','));
  command
      .add_option_function<std::string>(
          flags, [flag, min, &to](const std::string& given) { to = int(parse_number(flag, given, min, kMax)); },
          sentence)
      ->type_name("N");
}

}  // namespace

void add_flags(CLI::App& command, Options& options) {
  add_size_flags(command, options.sizes);
  add_number(command, "-n,--iters", options.iterations, 1, "timed calls (as many as fit the budget)");
  add_number(command, "--budget_ms", options.budget_ms, 1,
             "time for the timed calls, unless -n gives their number (500)");
  add_number(command, "-w,--warmup_iters", options.warmup, 0, "calls before the timed ones (a tenth of them)");
  add_number(command, "-c,--check", options.checks, 0, "additional calls, whose results are checked completely (1)");
  command
      .add_option_function<std::string>(
          "-d,--datatype", [&](const std::string& given) { options.dtypes = select("-d", given, kTypes); },
          "element type: float, double, half, bfloat16, int8, ..., uint64, or all (float)")
      ->type_name("TYPE");
  command
      .add_option_function<std::string>(
          "-o,--op", [&](const std::string& given) { options.ops = select("-o", given, kOps); },
          "reduction: sum, prod, min, max, avg or all (sum)")
      ->type_name("OP");
  command.add_flag("--loopback", options.loopback,
                   "before each line, also print the bytes that a call sent over the loopback interface");
  command.add_option("-J,--json", options.json, "also write the results to this file")->type_name("FILE");
}

DType wire_type(const std::string& given) {
  const std::vector<DType> types = select("--wire", given, kTypes);
  if (types.size() != 1 || (types[0] != DType::f16 && types[0] != DType::bf16))
    throw Error(ErrorCode::configuration, text("--wire '", given, "' must be half or bfloat16"));
  return types[0];
}

std::string_view short_name(DType dtype) {
  return short_of(dtype, kTypes);
}
std::string_view short_name(Op op) {
  return short_of(op, kOps);
}

}  // namespace anello::bench
