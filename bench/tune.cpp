#include <CLI/CLI.hpp>
#include <algorithm>
#include <anello/anello.hpp>
#include <array>
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>
#include <memory>
#include <set>
#include <sstream>

#include "bench/commands.hpp"
#include "bench/measure.hpp"
#include "bench/options.hpp"
#include "bench/ours.hpp"
#include "bench/report.hpp"
#include "bench/statistics.hpp"
#include "ring/algorithms/tuning_table.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::bench {
namespace {

// Candidates that are this much slower than the fastest of the trial are not measured further.
constexpr double kHopeless = 1.5;
// Minimum ratio of the time of the library's own choice to the fastest time, for a row in the table.
constexpr double kWorthARow = 1.05;
constexpr double kClose = 1.10;  // the library's own choice should take at most this many times the fastest time
constexpr std::uint64_t kMinSlabbed = 1 << 20;
constexpr std::array<std::int64_t, 6> kSlabs = {256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 0};

struct TuneRequest {
  std::vector<std::uint64_t> sizes;
  int rounds = 10, budget_ms = 20;
  std::string file;
};

// An algorithm and slab size to measure. The first candidate of a list is always the library's own choice.
struct Candidate {
  Algorithm algorithm = Algorithm::automatic;
  std::int64_t slab_bytes = algorithms::kSuitableSlab;
  std::vector<double> times_us;  // one time for each round
};

struct Finding {
  std::uint64_t size = 0;
  algorithms::Choice shipped;
  double shipped_us = 0;
  Candidate best;
  double best_us = 0;
};

// Parses a layout in the form in which a table for ANELLO_TABLE names it.
algorithms::TableRow row_for(const std::string& layout) {
  return algorithms::parse_table(layout + " any auto suitable").at(0);
}

algorithms::Facts facts_of(const algorithms::TableRow& row, std::uint64_t bytes) {
  return {.world = row.world,
          .oversubscribed = row.oversubscribed,
          .memory = row.memory,
          .hosts = row.hosts,
          .bytes = bytes,
          .elem_bytes = size_bytes(DType::f32)};
}

class Tuner {
 public:
  Tuner(World& world, const Settings& settings, const TuneRequest& request)
      : world_(world),
        library_(world, settings),
        request_(request),
        layout_(row_for(world.layout())),
        memory_(library_.allocate(*std::ranges::max_element(request.sizes))) {
    timing_.budget_ms = request.budget_ms;
  }

  Finding find(std::uint64_t size) {
    Finding finding;
    finding.size = size;
    finding.shipped = choose(facts_of(layout_, size));
    std::vector<Candidate> field = trial(finding);
    measure_rounds(field, size);
    const auto best = std::ranges::min_element(field, {}, [](const Candidate& each) { return median(each.times_us); });
    std::vector<Candidate> finalists{field[0], *best};
    if (best != field.begin()) measure_rounds(finalists, size);
    finding.shipped_us = median(finalists[0].times_us);
    finding.best_us = median(finalists[1].times_us);
    finding.best = *best;
    return finding;
  }

 private:
  // Measures all candidates in turn. find() measures the fastest one again, because its time was partly good luck.
  void measure_rounds(std::vector<Candidate>& field, std::uint64_t size) {
    for (Candidate& candidate : field) candidate.times_us.clear();
    for (int round = 0; round < request_.rounds; round++)
      for (std::size_t i = 0; i < field.size(); i++) {
        Candidate& candidate = field[round % 2 ? field.size() - 1 - i : i];
        candidate.times_us.push_back(time_us(candidate, size));
      }
  }

  // Returns the mean time: ranks that share cores take turns, so some calls are short and others long, and only the
  // mean counts all of them.
  double time_us(const Candidate& candidate, std::uint64_t size) {
    const Tensor tensor(memory_.get(), size / size_bytes(DType::f32), DType::f32);
    ReduceOptions options{.algorithm = name(candidate.algorithm)};
    if (candidate.slab_bytes != algorithms::kSuitableSlab) options.slab_bytes = candidate.slab_bytes;
    const Timing timing = measure(
        library_, [&] { world_.allreduce(tensor, Op::sum, options); }, timing_);
    return layout_.oversubscribed ? timing.mean_us : timing.p50_us;
  }

  // Measures every algorithm once, and the fast ones with other slab sizes too. Returns the candidates that are worth
  // measuring in rounds.
  std::vector<Candidate> trial(const Finding& finding) {
    std::vector<Candidate> field(1);
    for (const Algorithm algorithm : algorithms_for(facts_of(layout_, finding.size)))
      if (algorithm != finding.shipped.algorithm) field.push_back({algorithm});
    drop_hopeless(field, finding.size);
    if (finding.size < kMinSlabbed) return field;
    const std::size_t algorithms = field.size();
    for (std::size_t i = 0; i < algorithms; i++) {
      const bool own = field[i].algorithm == Algorithm::automatic;
      add_slabs(field, own ? finding.shipped.algorithm : field[i].algorithm, finding.size);
    }
    drop_hopeless(field, finding.size);
    return field;
  }

  // Adds the slab sizes whose plans differ from the plan for the library's own slab size, and from each other.
  void add_slabs(std::vector<Candidate>& field, Algorithm algorithm, std::uint64_t size) {
    algorithms::Facts facts = facts_of(layout_, size);
    std::set<std::uint64_t> known{slab_elems(facts, algorithm)};
    for (const std::int64_t slab_bytes : kSlabs) {
      facts.slab_bytes = slab_bytes;
      if (known.insert(slab_elems(facts, algorithm)).second) field.push_back({algorithm, slab_bytes});
    }
  }

  void drop_hopeless(std::vector<Candidate>& field, std::uint64_t size) {
    std::vector<double> times;
    for (const Candidate& candidate : field) times.push_back(time_us(candidate, size));
    const double best = *std::ranges::min_element(times);
    for (std::size_t i = field.size(); i-- > 1;)
      if (times[i] > kHopeless * best) field.erase(field.begin() + std::ptrdiff_t(i));
  }

  World& world_;
  Ours library_;
  const TuneRequest& request_;
  algorithms::TableRow layout_;
  Memory memory_;
  Options timing_;
};

std::string shown(Algorithm algorithm, std::int64_t slab_bytes) {
  return slab_bytes == algorithms::kSuitableSlab ? std::string(name(algorithm))
                                                 : text(name(algorithm), " in ", slab_bytes);
}

std::string line_of(const Finding& finding) {
  const Candidate& best = finding.best;
  const bool own = best.algorithm == Algorithm::automatic;
  return text(
      columns(std::pair(finding.size, 12), std::pair(shown(finding.shipped.algorithm, algorithms::kSuitableSlab), 10),
              std::pair(digits(finding.shipped_us), 10),
              std::pair(own ? "the same" : shown(best.algorithm, best.slab_bytes), 20),
              std::pair(digits(finding.best_us), 10), std::pair(digits(finding.shipped_us / finding.best_us), 7)),
      "\n");
}

std::string headline() {
  return text(columns(std::pair("# bytes", 12), std::pair("shipped", 10), std::pair("(us)", 10), std::pair("best", 20),
                      std::pair("(us)", 10), std::pair("ratio", 7)),
              "\n");
}

std::string verdict(const std::vector<Finding>& findings) {
  const auto ratio = [](const Finding& finding) { return finding.shipped_us / finding.best_us; };
  const auto close = std::ranges::count_if(findings, [&](const Finding& each) { return ratio(each) <= kClose; });
  const Finding& worst = *std::ranges::max_element(findings, {}, ratio);
  return text("# the library's own choice is within 10 % of the best at ", close, " of ", findings.size(),
              " sizes; farthest from it: ", digits(ratio(worst)), " at ", worst.size, " bytes\n");
}

// Ends each row at the geometric mean of its size and the next size. Merges adjacent rows with equal choices.
algorithms::Table rows_of(const algorithms::TableRow& layout, const std::vector<Finding>& findings) {
  algorithms::Table rows;
  for (std::size_t i = 0; i < findings.size(); i++) {
    const Finding& finding = findings[i];
    algorithms::TableRow row = layout;
    if (i + 1 < findings.size())
      row.max_bytes = std::uint64_t(std::sqrt(double(finding.size)) * std::sqrt(double(findings[i + 1].size)));
    if (finding.shipped_us > kWorthARow * finding.best_us) {
      row.algorithm = finding.best.algorithm;
      row.slab_bytes = finding.best.slab_bytes;
    }
    const bool again =
        !rows.empty() && rows.back().algorithm == row.algorithm && rows.back().slab_bytes == row.slab_bytes;
    if (again)
      rows.back().max_bytes = row.max_bytes;
    else
      rows.push_back(row);
  }
  return rows;
}

// Returns the rows that the file already has for other layouts, so that they are kept.
algorithms::Table rows_of_others(const std::string& file, const std::string& layout_of_ours) {
  std::ifstream old(file);
  std::ostringstream all;
  if (old) all << old.rdbuf();
  algorithms::Table others = algorithms::parse_table(all.str());
  std::erase_if(others,
                [&](const algorithms::TableRow& row) { return to_text(row).starts_with(layout_of_ours + " "); });
  return others;
}

void write(const std::string& file, const algorithms::Table& rows) {
  std::ofstream out(file);
  out << algorithms::table_headline();
  for (const algorithms::TableRow& row : rows) out << to_text(row);
  if (!out.flush()) throw Error(ErrorCode::file, text("-o ", file, ": cannot be written"));
}

void tune_in(World& world, const Settings& settings, const TuneRequest& request) {
  const bool writes = world.rank() == 0;
  algorithms::Table rows;
  if (writes && !request.file.empty()) rows = rows_of_others(request.file, world.layout());
  if (writes) std::cout << "# " << world.layout() << ", " << request.rounds << " rounds\n" << headline() << std::flush;
  Tuner tuner(world, settings, request);
  std::vector<Finding> findings;
  for (const std::uint64_t size : request.sizes) {
    findings.push_back(tuner.find(size));
    if (writes) std::cout << line_of(findings.back()) << std::flush;
  }
  if (!writes) return;
  std::cout << verdict(findings);
  if (request.file.empty()) return;
  for (const algorithms::TableRow& row : rows_of(row_for(world.layout()), findings)) rows.push_back(row);
  write(request.file, rows);
}

int tune(TuneRequest& request) {
  for (std::uint64_t& size : request.sizes) size = std::max<std::uint64_t>(4, size / 4 * 4);
  std::ranges::sort(request.sizes);
  Settings settings = Settings::from_environment();
  if (settings.algorithm != "auto" || settings.slab_bytes != algorithms::kSuitableSlab || !settings.table.empty())
    throw Error(ErrorCode::configuration,
                "tune needs the library's own choice; unset ANELLO_ALGORITHM, ANELLO_SLAB_BYTES and ANELLO_TABLE");
  return in_world(settings, [&](World& world) {
    if (world.size() == 1)
      throw Error(ErrorCode::configuration, "one rank has nothing to tune; use anello run -n 4 -- ...");
    tune_in(world, settings, request);
    return 0;
  });
}

void add_tune_flags(CLI::App& command, TuneRequest& request) {
  add_size_flags(command, request.sizes);
  const auto number = [&command](const std::string& flag, int& to, const std::string& sentence) {
    command
        .add_option_function<std::string>(
            flag, [flag, &to](const std::string& given) { to = int(parse_number(flag, given, 1, 1'000'000)); },
            sentence)
        ->type_name("N");
  };
  number("-r", request.rounds, "rounds; each measures every candidate once (10)");
  number("--budget_ms", request.budget_ms, "time of each measurement, which has at least three calls (20)");
  command.add_option("-o,--output", request.file, "table for ANELLO_TABLE; rows of other layouts stay")
      ->type_name("FILE");
}

}  // namespace

Command tune_command() {
  return {"tune", "finds the fastest algorithm for each size, and writes a table for ANELLO_TABLE",
          [](CLI::App& command) -> std::function<int()> {
            const auto request = std::make_shared<TuneRequest>();
            add_tune_flags(command, *request);
            return [request] { return tune(*request); };
          }};
}

}  // namespace anello::bench
