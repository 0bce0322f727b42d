#include "bench/idle.hpp"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <anello/error.hpp>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/machine.hpp"
#include "bench/report.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

struct Used {
  double processor_ms = 0, voluntary = 0, involuntary = 0;  // the last two: context switches
};

// Returns the sums over all threads since the process began. /proc/self/status counts the switches of one thread only.
Used used() {
  rusage given{};
  getrusage(RUSAGE_SELF, &given);
  const auto ms = [](const timeval& time) { return double(time.tv_sec) * 1e3 + double(time.tv_usec) / 1e3; };
  return {ms(given.ru_utime) + ms(given.ru_stime), double(given.ru_nvcsw), double(given.ru_nivcsw)};
}

// Calls `part`. Returns what this process used meanwhile, divided by `shares`.
template <class Part>
Used used_by(double shares, Part part) {
  const Used before = used();
  part();
  const Used after = used();
  return {(after.processor_ms - before.processor_ms) / shares, (after.voluntary - before.voluntary) / shares,
          (after.involuntary - before.involuntary) / shares};
}

// Returns the sum of the numbers after these names in a file with lines such as "Rss:   1234 kB".
double sum_in(const char* path, std::initializer_list<std::string_view> names) {
  double sum = 0;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    for (const std::string_view name : names)
      if (line.starts_with(name)) sum += std::stod(line.substr(name.size()));
  return sum;
}

double memory_mib(std::initializer_list<std::string_view> names) {
  return sum_in("/proc/self/smaps_rollup", names) / 1024;
}

double open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return double(std::distance(begin(all), end(all))) - 1;  // one is that of the iterator
}

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

// Figures of this rank, or their means over the ranks, in the order of the columns of the report.
using Row = std::vector<double>;
constexpr std::array kColumns{"idle ms/s", "wait ms/s", "resident", "private",   "shared", "files",
                              "threads",   "voluntary", "not",      "voluntary", "not"};

// Makes the row of this rank. All ranks call this. The allreduces are of 4 B and of 64 KiB.
Row measure_rank(Library& library, const std::array<Library::Call, 2>& allreduces, const IdleRequest& request) {
  const bool is_late = library.rank() == library.size() - 1;
  const auto repeat = [&](const Library::Call& call, int times) {
    for (int k = 0; k < times; k++) call();
  };
  for (const auto& call : allreduces) repeat(call, request.operations / 10 + 1);
  const Used idle = used_by(request.idle_ms / 1e3, [&] { sleep_ms(request.idle_ms); });
  allreduces[0]();
  const Used waiting = used_by(request.late_ms / 1e3, [&] {
    if (is_late) sleep_ms(request.late_ms);
    allreduces[0]();
  });
  std::array<Used, 2> operations;
  for (std::size_t k = 0; k < allreduces.size(); k++)
    operations[k] = used_by(request.operations, [&] { repeat(allreduces[k], request.operations); });
  return {idle.processor_ms,
          is_late ? 0 : waiting.processor_ms,
          memory_mib({"Rss:"}),
          memory_mib({"Private_Clean:", "Private_Dirty:", "Private_Hugetlb:"}),
          memory_mib({"Shared_Clean:", "Shared_Dirty:", "Shared_Hugetlb:"}),
          open_descriptors(),
          sum_in("/proc/self/status", {"Threads:"}),
          operations[0].voluntary,
          operations[0].involuntary,
          operations[1].voluntary,
          operations[1].involuntary};
}

}  // namespace

void add_idle_flags(CLI::App& command, IdleRequest& request) {
  command.add_option("--idle_ms", request.idle_ms, "how long no rank calls anything (2000)")
      ->check(CLI::PositiveNumber);
  command.add_option("--late_ms", request.late_ms, "how long the other ranks wait for the last one (1000)")
      ->check(CLI::PositiveNumber);
  command.add_option("--operations", request.operations, "allreduces whose context switches are counted (1000)")
      ->check(CLI::PositiveNumber);
  command.add_option("--calls", request.calls, "as for busy (blocking)")
      ->transform(CLI::CheckedTransformer(calls_by_name()));
}

int run_idle(Library& library, const IdleRequest& request, std::ostream& out) {
  if (library.size() < 2) throw Error(ErrorCode::unsupported, "a world of one rank does not wait: start two or more");
  std::vector<float> little(1), more(16384);
  const auto allreduce = [&](std::vector<float>& values) {
    const std::array tensors{Tensor(values.data(), values.size(), DType::f32)};
    return library.step(tensors, request.calls);
  };
  Row row = measure_rank(library, {allreduce(little), allreduce(more)}, request);
  library.gather(row, Op::sum);
  if (library.rank() != 0) return 0;
  nlohmann::ordered_json config = library.facts();
  config["world"] = library.size();
  config["machine"] = machine();
  out << text("# ", config.dump(),
              "\n# a rank: processor time, MiB of memory, open files, threads; context switches of an "
              "allreduce of 4 B, of 64 KiB\n#");
  for (const char* const each : kColumns) out << columns(std::pair(each, 10));
  out << "\n ";
  for (std::size_t k = 0; k < row.size(); k++)
    out << columns(std::pair(digits(row[k] / (k == 1 ? library.size() - 1 : library.size())), 10));
  out << "\n" << std::flush;
  return 0;
}

}  // namespace anello::bench
