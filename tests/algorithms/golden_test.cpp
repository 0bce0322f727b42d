// Plans as they are printed. A file of golden/ holds the plans of all ranks of the operation that its name describes:
//   <algorithm or collective>.<ranks>x<count>[.root<r>][.slab<elements>][.hosts<ranks>+<ranks>...]
//   [.<algorithm that keeps rank order>].txt
// A person has checked each file. If a plan differs from its file, the messages of the operation have changed.
// ANELLO_GOLDEN=write rewrites the files, keeps their first lines that begin with '#', and adds files for operations
// without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "tests/support/layouts.hpp"

namespace anello::algorithms {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

const fs::path kFolder = fs::path(ANELLO_SOURCE_DIR) / "tests" / "algorithms" / "golden";
constexpr const char* kRewrite = "; if it is meant, ANELLO_GOLDEN=write rewrites the files: read them";

bool writes() {
  return environment("ANELLO_GOLDEN") == "write";
}

// The algorithm between hosts for which all files of two levels must exist; files for others may exist.
constexpr Algorithm kBetweenHosts = Algorithm::ring;

// All algorithms and collectives by name. An allreduce is named after its algorithm.
std::map<std::string, Signature> subjects() {
  std::map<std::string, Signature> all;
  const auto add = [&](std::string_view title, Kind kind, Algorithm algorithm) {
    Signature signature;
    signature.kind = kind;
    signature.algorithm = algorithm;
    all[std::string(title)] = signature;
  };
  for (const Algorithm algorithm : all_algorithms()) add(name(algorithm), Kind::allreduce, algorithm);
  for (const Levels levels : all_levels())
    add(name(in_levels(levels, kBetweenHosts)), Kind::allreduce, in_levels(levels, kBetweenHosts));
  for (const Kind kind : kAllKinds)
    if (kind != Kind::allreduce) add(name(kind), kind, Algorithm::automatic);
  return all;
}

std::optional<std::uint64_t> number(std::string_view digits) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

struct Operation {
  Signature signature;
  Shape shape;
  std::shared_ptr<const Hosts> hosts = nullptr;

  // Takes one of the words between the dots after the first word. False if the word has no meaning.
  bool take(std::string_view word) {
    if (const std::size_t x = word.find('x'); x != word.npos && number(word.substr(0, x)).value_or(0) > 0) {
      shape.world = int(*number(word.substr(0, x)));
      shape.count = number(word.substr(x + 1)).value_or(0);
      return number(word.substr(x + 1)).has_value();
    }
    if (word.starts_with("root")) {
      shape.root = int(number(word.substr(4)).value_or(0));
      return number(word.substr(4)).has_value();
    }
    if (word.starts_with("slab")) {
      signature.slab_elems = std::uint32_t(number(word.substr(4)).value_or(0));
      return signature.slab_elems > 0;
    }
    if (word.starts_with("hosts")) return take_hosts(std::string(word.substr(5)));
    return signature.kind != Kind::allreduce && parse(word, signature.algorithm);
  }

  // "3+2+1": the number of ranks of each host, one after another.
  bool take_hosts(const std::string& sizes) {
    std::istringstream in(sizes);
    std::vector<int> each;
    for (std::string size; std::getline(in, size, '+');) each.push_back(int(number(size).value_or(0)));
    hosts = std::make_shared<Hosts>(in_blocks(each).hosts);
    shape.hosts = hosts.get();
    return int(hosts->all_ranks().size()) == shape.world;
  }
};

std::optional<Operation> operation_of(const std::string& file) {
  std::vector<std::string> words;
  std::istringstream in(file);
  for (std::string word; std::getline(in, word, '.');) words.push_back(word);
  if (words.size() < 3 || words.back() != "txt") return std::nullopt;
  const std::map<std::string, Signature> known = subjects();
  const auto subject = known.find(words.front());
  if (subject == known.end()) return std::nullopt;
  Operation operation{subject->second, {}};
  for (std::size_t i = 1; i + 1 < words.size(); i++)
    if (!operation.take(words[i])) return std::nullopt;
  return operation;
}

std::string plans_of(Operation operation) {
  std::string all;
  for (int rank = 0; rank < operation.shape.world; rank++) {
    operation.shape.rank = rank;
    all += to_text(plan_of(operation.signature, operation.shape));
  }
  return all;
}

std::string read(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the lines at the beginning that begin with '#'.
std::string comment_of(const std::string& text) {
  std::size_t end = 0;
  while (end < text.size() && text[end] == '#') end = std::min(text.find('\n', end), text.size() - 1) + 1;
  return text.substr(0, end);
}

std::set<std::string> golden_files() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) names.insert(entry.path().filename().string());
  return names;
}

// Returns the algorithms and collectives without a file.
std::set<std::string> without_file(const std::set<std::string>& files) {
  std::set<std::string> missing;
  for (const auto& [subject, signature] : subjects()) {
    const auto first = files.lower_bound(subject + ".");
    if (first == files.end() || !first->starts_with(subject + ".")) missing.insert(subject);
  }
  return missing;
}

std::set<std::string> shapes_for(const std::string& subject) {
  if (subject.find('+') == subject.npos) return {".3x7.txt", ".5x8.txt", ".3x7.slab4.txt"};
  return {".4x8.hosts2+2.txt", ".6x12.hosts3+2+1.txt"};
}

void rewrite() {
  std::set<std::string> files = golden_files();
  for (const std::string& subject : without_file(files))
    for (const std::string& shape : shapes_for(subject)) files.insert(subject + shape);
  for (const std::string& file : files)
    if (const auto operation = operation_of(file)) {
      const std::string comment = comment_of(read(kFolder / file));
      std::ofstream(kFolder / file) << comment << plans_of(*operation);
    }
}

TEST(Golden, PlansAreAsTheyWereReadAndFoundRight) {
  if (writes()) rewrite();
  for (const std::string& file : golden_files()) {
    const auto operation = operation_of(file);
    if (!operation) {
      ADD_FAILURE() << file << " names no algorithm and no collective, or not its shape";
      continue;
    }
    const std::string text = read(kFolder / file);
    EXPECT_EQ(text.substr(comment_of(text).size()), plans_of(*operation)) << file << kRewrite;
  }
}

TEST(Golden, EveryAlgorithmAndCollectiveHasAFile) {
  if (writes()) GTEST_SKIP() << "they are being written";
  EXPECT_THAT(without_file(golden_files()), IsEmpty()) << kRewrite;
}

TEST(GoldenRules, ANameDescribesAnOperation) {
  const auto ring = operation_of("ring.3x7.slab4.txt");
  ASSERT_TRUE(ring);
  EXPECT_EQ(ring->signature.kind, Kind::allreduce);
  EXPECT_EQ(ring->signature.algorithm, Algorithm::ring);
  EXPECT_EQ(ring->signature.slab_elems, 4U);
  EXPECT_EQ(ring->shape, (Shape{0, 3, 7}));
  const auto reduce = operation_of("reduce.4x7.root1.star.txt");
  ASSERT_TRUE(reduce);
  EXPECT_EQ(reduce->signature.kind, Kind::reduce);
  EXPECT_EQ(reduce->signature.algorithm, Algorithm::star);
  EXPECT_EQ(reduce->shape, (Shape{0, 4, 7, 1}));
  const auto shares = operation_of("shares+ring.6x7.hosts3+2+1.txt");
  ASSERT_TRUE(shares);
  EXPECT_EQ(shares->signature.algorithm, in_levels(Levels::shares, Algorithm::ring));
  EXPECT_EQ(shares->hosts->max_ranks(), 3);
  EXPECT_EQ(shares->hosts->of(4), 1);
  for (const char* wrong : {"shares+ring.6x7.hosts3+2.txt", "shares+ring.6x7.hosts3+x.txt", "rong.3x7.txt", "ring.txt",
                            "ring.3x.txt", "ring.0x7.txt", "ring.3x7.slab0.txt", "ring.3x7.star.txt", "ring.3x7",
                            "reduce.3x7.rootx.txt", "allreduce.3x7.txt"})
    EXPECT_FALSE(operation_of(wrong)) << wrong;
}

TEST(GoldenRules, WhatHasNoFileIsFound) {
  std::set<std::string> files;
  for (const auto& [subject, signature] : subjects()) files.insert(subject + ".3x7.txt");
  EXPECT_THAT(without_file(files), IsEmpty());
  files.erase("reduce.3x7.txt");
  EXPECT_THAT(without_file(files), testing::ElementsAre("reduce"));
}

TEST(GoldenRules, CommentsAreKept) {
  EXPECT_EQ(comment_of("# one\n# two\nrank 0"), "# one\n# two\n");
  EXPECT_EQ(comment_of("rank 0\n# two\n"), "");
  EXPECT_EQ(comment_of("# one"), "# one");
}

}  // namespace
}  // namespace anello::algorithms
