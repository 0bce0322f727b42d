#include "ring/algorithms/tuning_table.hpp"

#include <anello/error.hpp>
#include <array>
#include <charconv>
#include <limits>
#include <sstream>

#include "ring/base/text.hpp"

namespace anello::algorithms {
namespace {

constexpr std::string_view kAny = "any", kSuitable = "suitable";
constexpr std::array<std::string_view, 2> kMedia = {"tcp", "memory"}, kCores = {"own", "shared"};

[[noreturn]] void refuse(std::string_view what, std::string_view word, std::string_view wanted) {
  throw Error(ErrorCode::configuration, text(what, " '", printable(word), "' is not ", wanted));
}

std::uint64_t number(std::string_view what, std::string_view word, std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < min || value > max)
    refuse(what, word, text("a whole number from ", min, " to ", max));
  return value;
}

bool second_of(std::string_view what, std::string_view word, const std::array<std::string_view, 2>& names) {
  if (word != names[0] && word != names[1]) refuse(what, word, text(names[0], " or ", names[1]));
  return word == names[1];
}

TableRow parse_row(const std::vector<std::string>& words) {
  constexpr std::uint64_t kMaxRanks = 1 << 20, kMaxSlab = 1 << 30;
  if (words.size() != 7) throw Error(ErrorCode::configuration, text(words.size(), " words instead of 7"));
  TableRow row;
  row.world = int(number("world", words[0], 2, kMaxRanks));
  row.hosts = int(number("hosts", words[1], 1, kMaxRanks));
  row.memory = second_of("medium", words[2], kMedia);
  row.oversubscribed = second_of("cores", words[3], kCores);
  row.max_bytes = std::numeric_limits<std::uint64_t>::max();
  if (words[4] != kAny) row.max_bytes = number("bytes", words[4], 0, row.max_bytes);
  if (!parse(words[5], row.algorithm)) refuse("algorithm", words[5], text("one of ", algorithm_names()));
  if (words[6] != kSuitable) row.slab_bytes = std::int64_t(number("slab", words[6], 0, kMaxSlab));
  return row;
}

}  // namespace

std::string layout(const Facts& facts) {
  return text(facts.world, " ", facts.hosts, " ", kMedia[facts.memory], " ", kCores[facts.oversubscribed]);
}

Table parse_table(std::string_view all) {
  Table table;
  std::istringstream lines{std::string(all)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    number++;
    std::istringstream rest(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; rest >> word;) words.push_back(word);
    if (words.empty()) continue;
    try {
      table.push_back(parse_row(words));
    } catch (Error& e) {
      throw e.within(text("line ", number));
    }
  }
  return table;
}

std::string to_text(const TableRow& row) {
  const Facts facts{.world = row.world, .oversubscribed = row.oversubscribed, .memory = row.memory, .hosts = row.hosts};
  const bool any = row.max_bytes == std::numeric_limits<std::uint64_t>::max();
  return text(layout(facts), " ", any ? std::string(kAny) : std::to_string(row.max_bytes), " ", name(row.algorithm),
              " ", row.slab_bytes == kSuitableSlab ? std::string(kSuitable) : std::to_string(row.slab_bytes), "\n");
}

std::string table_headline() {
  return "# world hosts medium cores bytes algorithm slab\n";
}

}  // namespace anello::algorithms
