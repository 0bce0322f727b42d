#include <CLI/CLI.hpp>
#include <anello/anello.hpp>

#include "bench/commands.hpp"
#include "bench/options.hpp"
#include "bench/ours_on_gpu.hpp"
#include "bench/program.hpp"

namespace anello::bench {
namespace {

int join(const std::function<int(Library&)>& run, const OurOptions& options) {
  const Settings settings = Settings::from_environment();
  return in_world(settings, [&](World& world) {
    const std::unique_ptr<Ours> library = options.on_gpu ? std::make_unique<OursOnGpu>(world, settings, options)
                                                         : std::make_unique<Ours>(world, settings, options);
    return run(*library);
  });
}

}  // namespace

int run_anello_bench(int argc, char** argv) {
  OurOptions options;
  const auto add_flags = [&](CLI::App& app) {
    app.add_option_function<std::string>(
           "--device", [&](const std::string& given) { options.on_gpu = given == "cuda"; },
           "memory of the tensors: the host's or a GPU's")
        ->check(CLI::IsMember({"cpu", "cuda"}))
        ->type_name("cpu|cuda");
    app.add_flag("--allocate", options.shareable,
                 "tensors in memory from anello::allocate, which ranks of one host can map");
    app.add_flag("--async", options.async, "asynchronous calls on host tensors: starts each call, then waits for it");
    app.add_option_function<std::string>(
           "--wire", [&](const std::string& given) { options.wire = wire_type(given); },
           "type in which floats and doubles are sent: half or bfloat16")
        ->type_name("TYPE");
    app.add_option_function<std::string>(
           "--list",
           [&](const std::string& given) {
             options.list_bytes = parse_size("--list", given);
             if (options.list_bytes == 0) throw Error(ErrorCode::configuration, "--list 0: tensors must have a size");
           },
           "in-place allreduce and broadcast get a list of tensors of this size instead of one tensor")
        ->type_name("SIZE");
    app.add_flag("--factors", options.factors,
                 "multiplies inputs by 2 and results by 1/2, to measure the cost of these factors");
  };
  return run_program({"anello-bench",
                      "Measures collective operations: anello run -n 4 -- anello-bench allreduce",
                      add_flags,
                      [&](const std::function<int(Library&)>& run) { return join(run, options); },
                      {tune_command(), step_command(), simulate_command()}},
                     argc, argv);
}

}  // namespace anello::bench
