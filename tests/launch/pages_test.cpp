// Completion and manual pages, tested with the programs that read them.
#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "tests/launch/launched.hpp"
#include "tests/support/scratch.hpp"

namespace anello::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

bool is_installed(const std::string& program) {
  return testing::run({"sh", "-c", "command -v " + program}).code == 0;
}

// The completions that bash offers for the last word of a line.
std::vector<std::string> completed(const Words& line) {
  std::string words;
  for (const std::string& word : line) words += " '" + word + "'";
  const Outcome outcome =
      testing::run({"bash", "-c",
                    "source <(" ANELLO_PROGRAM " completion bash); COMP_WORDS=(anello" + words +
                        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _anello; printf '%s\\n' \"${COMPREPLY[@]}\""});
  EXPECT_EQ(outcome.err, "");
  std::vector<std::string> out;
  for (const std::string& word : testing::lines(outcome.out))
    if (!word.empty()) out.push_back(word);
  return out;
}

// The words that begin with a dash in the column of options.
std::set<std::string> options_in_help(const std::string& command) {
  std::set<std::string> out;
  for (const std::string& line : testing::lines(testing::run(anello({command, "--help"})).out)) {
    if (!line.starts_with("  -")) continue;
    std::string names = line.substr(2, line.find_first_of(" =", 2) - 2);
    std::ranges::replace(names, ',', ' ');
    std::istringstream words(names);
    for (std::string name; words >> name;) out.insert(name);
  }
  return out;
}

TEST(Completion, OffersWhatHelpLists) {
  for (const std::string command : {"run", "rendezvous", "secret", "settings", "flight", "doctor"}) {
    const auto offered = completed({command, "-"});
    EXPECT_EQ(std::set<std::string>(offered.begin(), offered.end()), options_in_help(command)) << command;
    EXPECT_THAT(completed({""}), Contains(command));
  }
}

TEST(Completion, KnowsWhereItIs) {
  EXPECT_THAT(completed({"ren"}), ElementsAre("rendezvous"));
  EXPECT_THAT(completed({"run", "--time"}), ElementsAre("--timeout", "--timestamp"));
  EXPECT_THAT(completed({"run", "-n", "4", "--gra"}), ElementsAre("--grace"));
  EXPECT_THAT(completed({"run", "--np", "=", "4", "--gra"}), ElementsAre("--grace"));
  EXPECT_THAT(completed({"run", "-n", ""}), IsEmpty()) << "any number";
  EXPECT_THAT(completed({"run", "-n", "4", "bas"}), Contains("bash"));
  EXPECT_THAT(completed({"run", "-n", "4", "--", "bas"}), Contains("bash"));
  EXPECT_THAT(completed({"run", "-n", "4", "--", "bash", "--grac"}), IsEmpty()) << "the program's own option";
  EXPECT_THAT(completed({"run", "--output", "/us"}), ElementsAre("/usr"));
  EXPECT_THAT(completed({"completion", ""}), ElementsAre("bash", "zsh"));
  EXPECT_THAT(completed({"fly", "-"}), IsEmpty());
}

TEST(Completion, ZshReadsItsScript) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const Outcome outcome = testing::run({"zsh", "-fc",
                                        "autoload -U compinit && compinit -uD && source <(" ANELLO_PROGRAM
                                        " completion zsh) && print $_comps[anello]"});
  EXPECT_EQ(outcome.out + outcome.err, "_anello\n");
}

TEST(Manual, HasNoWarnings) {
  if (!is_installed("man")) GTEST_SKIP() << "man is not installed";
  const Scratch scratch;
  ASSERT_EQ(testing::run(anello({"pages", scratch.path()})).code, 0);
  for (const auto& page : std::filesystem::directory_iterator(scratch / "man/man1")) {
    const Outcome read = testing::run({"man", "--warnings", "-l", page.path()},
                                      {.environment = {"LC_ALL=C.UTF-8", "MANWIDTH=80", "MANPAGER=cat"}});
    EXPECT_EQ(read.err, "") << page;
    EXPECT_TRUE(contains(read.out, "\nSYNOPSIS\n")) << read.out;
  }
}

TEST(Manual, SaysWhatHelpSays) {
  for (const std::string command : {"run", "rendezvous"}) {
    const std::string page = testing::run(anello({"manual", command})).out;
    for (const std::string& option : options_in_help(command)) {
      std::string escaped = "\\fB";
      for (const char c : option) escaped += c == '-' ? std::string("\\-") : std::string(1, c);
      EXPECT_TRUE(contains(page, escaped + "\\fR")) << option << " is not in\n" << page;
    }
  }
  EXPECT_TRUE(contains(testing::run(anello({"manual"})).out, ".TH ANELLO 1 "));
  EXPECT_EQ(testing::run(anello({"manual", "fly"})).code, 2);
}

}  // namespace
}  // namespace anello::launch
