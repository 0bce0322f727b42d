#include "bench/benchmark.hpp"

#include <algorithm>
#include <iostream>

#include "bench/json_file.hpp"
#include "bench/machine.hpp"
#include "bench/measure.hpp"
#include "bench/memory.hpp"

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
  if (options.iterations > 0) config["iterations"] = options.iterations;  // otherwise by time
  if (options.warmup >= 0) config["warmup"] = options.warmup;
  config["optimized"] = kOptimized;
  return config;
}

Figures figures(const Timing& timing, std::uint64_t bytes, double bus_factor) {
  const double alg_bw = timing.p50_us > 0 ? double(bytes) / timing.p50_us * 1e-3 : 0;
  return {timing, alg_bw, alg_bw * bus_factor, {}};
}

class Run {
 public:
  Run(Library& library, const Collective& collective, const Options& options)
      : library_(library),
        collective_(collective),
        options_(options),
        input_(library.allocate(*std::ranges::max_element(options.sizes))),
        output_(library.allocate(*std::ranges::max_element(options.sizes))) {}

  Result measure_one(std::uint64_t size, DType dtype, Op op) {
    Result result;
    result.count = size / size_bytes(dtype);
    result.size_bytes = result.count * size_bytes(dtype);
    result.dtype = dtype;
    result.op = op;
    const Tensor input(input_.get(), result.count, dtype), output(output_.get(), result.count, dtype);
    result.out_of_place = measure_one(input, output, op);
    result.in_place = measure_one(input, input, op);
    return result;
  }

 private:
  Figures measure_one(Tensor input, Tensor output, Op op) {
    const Library::Call call = collective_.prepare(library_, input, output, op);
    const Timing timing = measure(library_, call, options_);
    Figures result = figures(timing, input.bytes(), collective_.bus_factor(library_.size()));
    result.wrong = check(library_, call, input, output, op, options_.checks);
    return result;
  }

  Library& library_;
  const Collective& collective_;
  const Options& options_;
  Memory input_, output_;
};

}  // namespace

int run_benchmark(Library& library, const Collective& collective, const Options& options, std::ostream& out) {
  const bool writes = library.rank() == 0;
  JsonFile json(writes ? options.json : "");
  const nlohmann::ordered_json config = config_of(library, collective, options);
  if (writes && !kOptimized) out << "# built with assertions: the figures mean nothing\n";
  if (writes) out << "# " << config.dump() << "\n" << headline() << std::flush;

  std::vector<Result> results;
  Run run(library, collective, options);
  for (const std::uint64_t size : options.sizes)
    for (const DType dtype : options.dtypes)
      for (const Op op : options.ops) {
        results.push_back(run.measure_one(size, dtype, op));
        if (writes) out << line(results.back()) << std::flush;
      }
  if (writes) out << last_line(results) << std::flush;
  json.write(to_json(config, results));
  return wrong(results) > 0;
}

}  // namespace anello::bench
