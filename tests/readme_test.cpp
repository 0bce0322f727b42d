// Checks that the pages in Markdown agree with the tree, the code and the recorded figures, and that the README files
// stay short. Their programs are built by tests/consumer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "ring/base/config.hpp"
#include "tests/support/pattern.hpp"

namespace anello {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Lines = std::vector<std::string>;

const fs::path kRoot = ANELLO_SOURCE_DIR;
constexpr std::array<std::string_view, 7> kRooms = {"ring/",  "gpu/",   "rendezvous/", "trainer/",
                                                    "bench/", "tests/", "docs/"};

std::string read(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns all pages of the source tree, except for pages in build folders.
std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (auto entry = fs::recursive_directory_iterator(kRoot); entry != fs::end(entry); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && (name.starts_with(".") || (entry.depth() == 0 && name.starts_with("build"))))
      entry.disable_recursion_pending();
    if (name.ends_with(".md")) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string without_code_blocks(const std::string& text) {
  std::string unfenced, line;
  bool fenced = false;
  for (std::istringstream in(text); std::getline(in, line);) {
    const bool fence =
        line.find_first_not_of(' ') != std::string::npos && line.substr(line.find_first_not_of(' ')).starts_with("```");
    if (!fence && !fenced) unfenced += line + "\n";
    fenced ^= fence;
  }
  return unfenced;
}

// The text in two parts: prose without code blocks and code spans, and the code spans.
struct Markdown {
  std::string prose;
  Lines spans;
};
Markdown parse(const std::string& text) {
  const std::string unfenced = without_code_blocks(text);
  Markdown parsed;
  bool code = false;
  std::string piece;
  for (std::istringstream in(unfenced); std::getline(in, piece, '`'); code = !code) {
    if (code)
      parsed.spans.push_back(piece);
    else
      parsed.prose += piece;
  }
  return parsed;
}

Lines matches(const std::string& text, const char* expression) {
  Lines found;
  for (const pattern::Match& match : pattern::find_all(text, expression)) found.push_back(match[1]);
  return found;
}

// A path in a sentence may be followed by punctuation.
std::string without_punctuation(std::string word) {
  word.erase(word.find_last_not_of(".,:;)") + 1);
  return word;
}

// Returns the folder before a wildcard or a placeholder in a path ("ring/*/README.md", "tests/<room>").
std::string without_wildcards(const std::string& path) {
  const std::size_t wildcard = path.find_first_of("*<{");
  return wildcard == std::string::npos ? path : path.substr(0, path.rfind('/', wildcard) + 1);
}

// Returns the words of code spans that begin like a path of the project.
Lines project_paths(const Lines& spans) {
  Lines found;
  for (const std::string& span : spans) {
    std::string word;
    for (std::istringstream in(span); in >> word;) {
      word = without_punctuation(word);
      const auto begins = [&](std::string_view room) { return word.starts_with(room); };
      if (std::any_of(kRooms.begin(), kRooms.end(), begins)) found.push_back(without_wildcards(word));
    }
  }
  return found;
}

// Returns the targets of links within the tree: "file", "file#heading" or "#heading".
Lines relative_links(const std::string& prose) {
  Lines found;
  for (const std::string& target : matches(prose, R"(\]\(([^)\s]+)\))"))
    if (target.find("://") == std::string::npos) found.push_back(target);
  return found;
}

// Returns the names by which links refer to a page's headings: "## The C API" is "the-c-api".
Lines headings(const std::string& text) {
  Lines found;
  std::string line;
  for (std::istringstream in(without_code_blocks(text)); std::getline(in, line);) {
    if (!line.starts_with('#')) continue;
    std::string name;
    for (const char c : line.substr(line.find(' ') + 1)) {
      if (c == ' ') name += '-';
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') name += char(std::tolower(c));
    }
    found.push_back(name);
  }
  return found;
}

bool has_target(const std::string& text, const fs::path& folder, const std::string& link) {
  const std::string file = link.substr(0, link.find('#'));
  if (!file.empty() && !fs::exists(folder / file)) return false;
  if (link.find('#') == std::string::npos) return true;
  const Lines found = headings(file.empty() ? text : read(folder / file));
  return std::find(found.begin(), found.end(), link.substr(link.find('#') + 1)) != found.end();
}

// Returns the paths, links and scripts in a page of `folder` that do not exist in the tree.
Lines missing(const std::string& text, const fs::path& folder) {
  const Markdown markdown = parse(text);
  Lines complaints;
  const auto require = [&](const fs::path& base, const std::string& path, const char* kind) {
    if (!fs::exists(base / path)) complaints.push_back(std::string(kind) + " " + path);
  };
  for (const std::string& path : project_paths(markdown.spans)) require(kRoot, path, "path");
  for (const std::string& link : relative_links(markdown.prose))
    if (!has_target(text, folder, link)) complaints.push_back("link " + link);
  for (const std::string& script : matches(text, R"(\bbash +([\w.-]*/[\w./-]+))"))
    require(kRoot, without_punctuation(script), "script");
  return complaints;
}

// Returns the text between <!-- what --> and <!-- end of what -->.
std::string marked(const fs::path& file, const std::string& what) {
  const std::string text = read(file), opening = "<!-- " + what + " -->\n";
  const std::size_t begin = text.find(opening), end = text.find("<!-- end of " + what + " -->");
  if (begin == std::string::npos || end == std::string::npos) return "no marks for " + what;
  return text.substr(begin + opening.size(), end - begin - opening.size());
}

std::string row(std::initializer_list<std::string_view> cells) {
  std::string line = "|";
  for (const std::string_view cell : cells) line.append(" ").append(cell).append(" |");
  return line + "\n";
}

// Returns the expected index of algorithms in ring/algorithms/README.md.
std::string algorithms_index() {
  const auto order = [](bool wide, bool narrow) { return !wide ? "no" : narrow ? "yes" : "yes, except in 16 bits"; };
  std::string index = row({"name", "what it does", "messages", "depth", "bytes sent by the busiest rank", "rank order",
                           "when chosen"}) +
                      "|---|---|---|---|---|---|---|\n";
#define ANELLO_ALGORITHM(name, value, wide, narrow, does, messages, depth, bytes, when) \
  index += row({"`" #name "`", does, messages, depth, bytes, order(wide, narrow), when});
#define ANELLO_LEVELS(name, value, does, messages, depth, bytes, when) \
  index += row({"`" #name "+NAME`", does, messages, depth, bytes, "no", when});
#include "ring/algorithms/algorithms.def"
  return index;
}

TEST(Readme, TheSettingsAreTheOnesOfTheTable) {
  EXPECT_EQ(marked(kRoot / "docs" / "settings.md", "settings"), settings_table(true))
      << "`anello settings --markdown` prints the table";
}

TEST(Readme, TheAlgorithmsAreTheOnesOfTheTable) {
  EXPECT_EQ(marked(kRoot / "ring" / "algorithms" / "README.md", "algorithms"), algorithms_index())
      << "Between <!-- algorithms --> and <!-- end of algorithms --> of ring/algorithms/README.md belongs:\n"
      << algorithms_index();
}

TEST(Readme, EveryRoomIsOnTheMap) {
  const std::string text = read(kRoot / "README.md");
  for (const auto& entry : fs::directory_iterator(kRoot / "ring")) {
    if (!fs::exists(entry.path() / "CMakeLists.txt")) continue;
    EXPECT_NE(text.find("`ring/" + entry.path().filename().string() + "`"), std::string::npos) << entry.path();
  }
}

TEST(Readme, TheFiguresAreTheRecordedOnes) {
  for (const std::string name : {"tcp", "memory"}) {
    const std::string command = "bash '" + (kRoot / "bench/tables.sh").string() + "' '" +
                                (kRoot / "bench/results" / (name + ".json")).string() + "'";
    std::string table;
    std::FILE* output = popen(command.c_str(), "r");
    ASSERT_NE(output, nullptr);
    for (int c = std::fgetc(output); c != EOF; c = std::fgetc(output)) table += char(c);
    EXPECT_EQ(pclose(output), 0);
    EXPECT_EQ(marked(kRoot / "bench/README.md", name), table) << "`" << command << "` prints the table";
  }
}

// Laboratory notes belong into docs/notes, and figures of former states into the history.
TEST(Readme, ThePagesAreShort) {
  const auto lines = [](const fs::path& file) {
    const std::string text = read(file);
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_LE(lines(kRoot / "README.md"), 200) << "details belong beside the code they are about";
  EXPECT_LE(lines(kRoot / "ring/README.md"), 120);
  EXPECT_LE(lines(kRoot / "bench/README.md"), 150);
  std::ptrdiff_t words = 0;
  for (const fs::path& file : pages()) {
    if (file.filename() != "README.md") continue;
    std::istringstream in(read(file));
    words += std::distance(std::istream_iterator<std::string>(in), std::istream_iterator<std::string>());
  }
  EXPECT_LE(words, 20'000) << "all README files together";
}

TEST(Readme, TheTreeIsRead) {
  EXPECT_GE(pages().size(), 20U);
}

TEST(Readme, PathsLinksAndScriptsExist) {
  for (const fs::path& file : pages()) EXPECT_THAT(missing(read(file), file.parent_path()), IsEmpty()) << file;
}

TEST(ReadmeRules, WhatDoesNotExistIsFound) {
  const std::string text =
      "## A `heading`, here\n[good](../README.md#two-commands), [here](#a-heading-here), [bad](nowhere.md), "
      "[bad](#nowhere),\n"
      "[bad](../README.md#nowhere), [web](https://example.org/ring/nowhere#nowhere)\n"
      "`tests/run.sh`, `tests/nothing.cpp`, and `ring/nowhere.hpp, gpu/README.md`; build/release/tests/nothing\n"
      "```sh\nbash tests/run.sh\nbash tests/nothing.sh SECONDS\n```\n";
  EXPECT_THAT(missing(text, kRoot / "tests"),
              ElementsAre("path tests/nothing.cpp", "path ring/nowhere.hpp", "link nowhere.md", "link #nowhere",
                          "link ../README.md#nowhere", "script tests/nothing.sh"));
}

TEST(ReadmeRules, WildcardsBuildsAndProgramsAreNoPaths) {
  const std::string text =
      "`build/release/tests/nothing`, `ring/*/README.md`, `tests/<room>/nothing.cpp`, `bash` and `bash -x`\n"
      "`[](anello::World& world) {}`\n```cpp\nrun(4, [](anello::World& world) {});  // `tests/nothing`\n```\n";
  EXPECT_THAT(missing(text, kRoot), IsEmpty());
  EXPECT_THAT(missing("`ring/nowhere/*.cpp`", kRoot), ElementsAre("path ring/nowhere/"));
}

}  // namespace
}  // namespace anello
