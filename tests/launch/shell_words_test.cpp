// Words of a command line in quotes, as in a shell.
#include "rendezvous/launch/base/shell_words.hpp"

#include <anello/error.hpp>

#include "tests/launch/agents.hpp"

namespace anello::launch {
namespace {

std::vector<std::string> split(const std::string& line) {
  return split_words("--ssh", line);
}

TEST(ShellWords, AreDividedAtBlanksOutsideOfQuotes) {
  EXPECT_THAT(split(R"(ssh -o "ProxyCommand ssh -W %h:%p gw" -F 'my config')"),
              ElementsAre("ssh", "-o", "ProxyCommand ssh -W %h:%p gw", "-F", "my config"));
  EXPECT_THAT(split("  a\t b\n"), ElementsAre("a", "b"));
  EXPECT_THAT(split(R"(a'b c'"d e"\ f)"), ElementsAre("ab cd e f"));
  EXPECT_THAT(split(R"('' "" x)"), ElementsAre("", "", "x"));
  EXPECT_THAT(split(R"("a\"b\\c\d" '\' \\ \')"), ElementsAre(R"(a"b\c\d)", "\\", "\\", "'"));
  EXPECT_THAT(split("$HOME ~ *"), ElementsAre("$HOME", "~", "*"));
  EXPECT_TRUE(split(" ").empty());
}

// A shell splits the line into the same words.
TEST(ShellWords, AreThoseOfAShell) {
  for (const std::string line : {R"(a 'b  c' "d\e\"f" g\ h '' i'j'"k"l)", R"(-o "x y=\$z" \\ "\\")"}) {
    std::vector<std::string> expected = testing::lines(testing::run({"sh", "-c", "printf '%s\\n' " + line}).out);
    EXPECT_EQ(split(line), expected) << line;
  }
  for (const std::string word : {"plain", "", "it's", "a b", "\"$x\"", "\\", "new\nline"})
    EXPECT_THAT(split(quoted(word)), ElementsAre(word));
}

TEST(ShellWords, AQuoteThatIsNotClosedIsNamed) {
  for (const auto& [line, why] :
       std::vector<std::pair<std::string, std::string>>{{"ssh -o \"x", "--ssh: a \" has no second one: ssh -o \"x"},
                                                        {"ssh 'x", "--ssh: a ' has no second one"},
                                                        {"ssh x\\", "--ssh: a backslash is at the end"},
                                                        {"ssh \"x\\\"", "--ssh: a \" has no second one"}}) {
    try {
      split(line);
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr(why));
    }
  }
}

TEST_F(Agents, TheCommandOfSshHasWordsInQuotes) {
  std::filesystem::create_directory(scratch_ / "my tools");
  std::filesystem::create_symlink(scratch_ / "ssh", scratch_ / "my tools/ssh");
  const std::string command = "'" + (scratch_ / "my tools/ssh").string() + "' -o \"ProxyCommand x y\"";
  EXPECT_EQ(testing::run(job("h1", "echo up", {"--ssh", command}), around()).out, "[0] up\n");
  EXPECT_THAT(testing::run(job("h1", "true", {"--ssh", command, "--dry-run"}), around()).out,
              HasSubstr(" -o 'ProxyCommand x y'\n"));
  const Outcome open = testing::run(job("h1", "true"), {.environment = {"ANELLO_SSH=ssh -o 'x"}});
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.err, HasSubstr("ANELLO_SSH: a ' has no second one: ssh -o 'x"));
}

}  // namespace
}  // namespace anello::launch
