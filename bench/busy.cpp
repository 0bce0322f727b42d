#include "bench/busy.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <atomic>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

#include "bench/machine.hpp"
#include "bench/measure.hpp"
#include "bench/report.hpp"
#include "bench/sizes.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

// Starts threads that compute until this object is destroyed.
class BusyThreads {
 public:
  BusyThreads(int count, int nice) {
    for (int k = 0; k < count; k++) try {
        threads_.emplace_back([this, nice](const std::stop_token& stop) { compute(nice, stop); });
      } catch (const std::system_error& error) {
        throw Error(ErrorCode::configuration, text("--threads ", count, ": thread ", k + 1,
                                                   " cannot be started: ", error.code().message(), "; take fewer"));
      }
    for (int ready = 0; ready < count; ready = ready_) std::this_thread::yield();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

  void check() const {
    if (errno_ != 0) throw Error(ErrorCode::configuration, text("--nice: ", std::system_category().message(errno_)));
  }

 private:
  void compute(int nice, const std::stop_token& stop) {
    if (setpriority(PRIO_PROCESS, id_t(gettid()), nice) != 0) errno_ = errno;
    ready_++;
    while (!stop.stop_requested()) continue;
  }

  std::atomic<int> ready_ = 0, errno_ = 0;
  std::vector<std::jthread> threads_;
};

}  // namespace

void add_busy_flags(CLI::App& command, BusyRequest& request) {
  command.add_option("--threads", request.threads, "threads of each rank that compute (4)")->check(CLI::Range(0, 1000));
  command.add_option("--nice", request.nice, "niceness of these threads (5)")->check(CLI::Range(0, 19));
  command.add_option("--tensors", request.tensors, "allreduces in a step (4)")->check(CLI::Range(1, 1000));
  command
      .add_option_function<std::string>(
          "-s,--size", [&request](const std::string& given) { request.size_bytes = parse_size("-s", given); },
          "bytes of each tensor (4K)")
      ->type_name("SIZE");
  command
      .add_option(
          "--calls", request.calls,
          "blocking: one after another; waiting: starts all, then waits for each; looking: starts all, then checks "
          "every 100 us whether they are done (blocking)")
      ->transform(CLI::CheckedTransformer(calls_by_name()));
  command.add_option("--budget_ms", request.budget_ms, "time for the timed steps (2000)")->check(CLI::PositiveNumber);
}

int run_busy(Library& library, const BusyRequest& request, std::ostream& out) {
  const std::size_t count = std::max<std::size_t>(request.size_bytes / sizeof(float), 1);
  std::vector<std::vector<float>> memory(std::size_t(request.tensors), std::vector<float>(count));
  std::vector<Tensor> tensors;
  for (auto& each : memory) tensors.emplace_back(each.data(), each.size(), DType::f32);
  const Library::Call step = library.step(tensors, request.calls);
  Options options;
  options.budget_ms = request.budget_ms;
  const BusyThreads busy(request.threads, request.nice);
  busy.check();
  const Timing t = measure(library, step, options);
  if (library.rank() != 0) return 0;
  nlohmann::ordered_json config = library.facts();
  config["world"] = library.size();
  config["machine"] = machine();
  out << text("# ", config.dump(), "\n# threads  nice  tensors      size     p50     p90     p99   worst (us)\n")
      << text(columns(std::pair(request.threads, 9), std::pair(request.nice, 6), std::pair(request.tensors, 9),
                      std::pair(count * sizeof(float), 10), std::pair(digits(t.p50_us), 8),
                      std::pair(digits(t.p90_us), 8), std::pair(digits(t.p99_us), 8), std::pair(digits(t.max_us), 8)),
              "\n")
      << std::flush;
  return 0;
}

}  // namespace anello::bench
