#include "bench/benchmark.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <iostream>

#include "bench/json_file.hpp"
#include "bench/machine.hpp"
#include "bench/measure.hpp"
#include "bench/memory.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

#ifdef NDEBUG
constexpr bool kOptimized = true;
#else
constexpr bool kOptimized = false;
#endif

nlohmann::ordered_json config_of(const Library& library, const Collective& collective, const Options& options) {
  nlohmann::ordered_json config = library.facts();
  config["operation"] = collective.name;
  config["world"] = library.size();
  config["machine"] = machine();
  // If `iterations` is 0, the budget of time decides how often calls are repeated.
  if (options.iterations > 0) config["iterations"] = options.iterations;
  if (options.warmup >= 0) config["warmup"] = options.warmup;
  config["optimized"] = kOptimized;
  return config;
}

Figures figures(const Timing& timing, std::uint64_t bytes, double bus_factor) {
  const double alg_bw = timing.p50_us > 0 ? double(bytes) / timing.p50_us * 1e-3 : 0;
  return {timing, alg_bw, alg_bw * bus_factor, 0, {}};
}

class Run {
 public:
  Run(Library& library, const Collective& collective, const Options& options)
      : library_(library),
        collective_(collective),
        options_(options),
        sizes_(collective.kind == Kind::barrier ? std::vector<std::uint64_t>{0} : options.sizes),
        from_(library.allocate(most_bytes())),
        to_(library.allocate(most_bytes())) {}

  const std::vector<std::uint64_t>& sizes() const { return sizes_; }

  // An operation that does not reduce ignores `op`.
  Result measure_one(std::uint64_t size, DType dtype, Op op) {
    Result result;
    result.count = in_equal_parts(size / size_bytes(dtype));
    result.size_bytes = result.count * size_bytes(dtype);
    result.dtype = dtype;
    if (collective_.reduces) result.op = op;
    const Tensor from(from_.get(), result.count, dtype), to(to_.get(), result.count, dtype);
    const int rank = library_.rank(), world = library_.size();
    result.out_of_place = measure_one(out_of_place(collective_.kind, from, to, rank, world), from.bytes(), op);
    result.in_place = measure_one(in_place(collective_.kind, from, rank, world), from.bytes(), op);
    return result;
  }

 private:
  std::optional<Figures> measure_one(const std::optional<Tensors>& tensors, std::uint64_t bytes, Op op) {
    if (!tensors) return std::nullopt;
    const Library::Call call = library_.collective(collective_.kind, tensors->input, tensors->output, op);
    std::uint64_t calls = 0;
    const Library::Call counted = [&] {
      calls++;
      call();
    };
    const std::uint64_t sent_before = options_.loopback ? loopback_bytes() : 0;
    const Timing timing = measure(library_, options_.loopback ? counted : call, options_);
    Figures result = figures(timing, bytes, collective_.bus_factor(library_.size()));
    if (options_.loopback) result.sent_bytes = double(loopback_bytes() - sent_before) / double(calls);
    result.wrong = check(library_, call, collective_.kind, *tensors, op, options_.checks);
    return result;
  }

  // Returns `count`. If the operation divides its tensor into parts, rounds up so that all parts have the same size.
  std::uint64_t in_equal_parts(std::uint64_t count) const {
    const auto world = std::uint64_t(library_.size());
    const Kind kind = collective_.kind;
    const bool whole = kind == Kind::allreduce || kind == Kind::reduce || kind == Kind::broadcast;
    return whole ? count : (count + world - 1) / world * world;
  }
  std::uint64_t most_bytes() const {
    constexpr std::uint64_t kMaxElemBytes = 8;
    return *std::ranges::max_element(sizes_) + std::uint64_t(library_.size()) * kMaxElemBytes;
  }

  Library& library_;
  const Collective& collective_;
  const Options& options_;
  std::vector<std::uint64_t> sizes_;
  Memory from_, to_;
};

std::string note(DType dtype, Op op, const Error& left_out) {
  return text("# left out: ", short_name(dtype), " ", short_name(op), ": ", left_out.what(), "\n");
}

}  // namespace

int run_benchmark(Library& library, const Collective& collective, const Options& options, std::ostream& out) {
  const bool writes = library.rank() == 0;
  JsonFile json(writes ? options.json : "");
  const nlohmann::ordered_json config = config_of(library, collective, options);
  if (writes && !kOptimized) out << "# this build has assertions: the figures mean nothing\n";
  if (writes) out << "# " << config.dump() << "\n" << headline() << std::flush;

  if (writes && library.size() == 1)
    out << "# one rank sends nothing: these are figures of local work; start several: anello run -n 2 -- ...\n";

  std::vector<Result> results;
  std::optional<Error> left_out;
  Run run(library, collective, options);
  for (const std::uint64_t size : run.sizes())
    for (const DType dtype : options.dtypes)
      for (const Op op : collective.reduces ? options.ops : std::vector{Op::sum}) {
        try {
          results.push_back(run.measure_one(size, dtype, op));
          if (writes && options.loopback) out << loopback_line(results.back());
          if (writes) out << line(results.back()) << std::flush;
        } catch (const Error& error) {  // every rank gets this same error
          if (error.code() != ErrorCode::unsupported) throw;
          left_out = error;
          if (writes) out << note(dtype, op, error) << std::flush;
        }
      }
  if (results.empty() && left_out) throw *left_out;
  if (writes) out << last_line(results) << std::flush;
  json.write(to_json(config, results));
  return wrong(results) > 0;
}

}  // namespace anello::bench
