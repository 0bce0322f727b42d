// The messages about programs that cannot be started, and about hosts on which no program can be started.
#include "rendezvous/launch/processes/start_problem.hpp"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tests/launch/agents.hpp"

namespace anello::launch {
namespace {

using std::filesystem::perms;

class Program : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content, perms mode) {
    scratch_.put(name, content);
    std::filesystem::permissions(scratch_ / name, mode);
    return scratch_ / name;
  }
  // One line that ends with `words`.
  static void expect_refused(const std::string& program, int code, const std::string& words, Words before = {}) {
    before.insert(before.end(), {ANELLO_PROGRAM, "run", "-n", "2", "--", program});
    const Outcome outcome = testing::run(before);
    EXPECT_EQ(outcome.code, code) << program;
    EXPECT_THAT(testing::lines(without_crowding(outcome.err)), ElementsAre(::testing::StartsWith("anello: " + words)));
  }

  Scratch scratch_;
};

TEST_F(Program, ThatIsNotThere) {
  expect_refused("no-such-program", 127, "program not found: 'no-such-program' is not in PATH; for a program in this");
  expect_refused("./no-such", 127, "program not found: './no-such' does not exist; check the path");
  const std::string text = file("text", "text\n", perms::owner_read);
  expect_refused(text + "/in-a-file", 127, "program not found: '" + text + "/in-a-file' does not exist");
}

TEST_F(Program, ThatIsNotExecutable) {
  const std::string path = file("text", "text\n", perms::owner_read);
  expect_refused(path, 126, "'" + path + "' is not an executable file; to make it one, run chmod +x");
}

TEST_F(Program, ThatIsAFolder) {
  for (const std::string path : {"/", "/tmp", "."})
    expect_refused(path == "." ? "./" : path, 126,
                   "'" + (path == "." ? "./" : path) + "' is a folder; name the program in it");
}

TEST_F(Program, WhoseInterpreterIsMissingOrNoProgram) {
  const std::string dos = file("dos", "#!/bin/sh\r\ntrue\r\n", perms::owner_all);
  expect_refused(dos, 127,
                 "the interpreter of '" + dos +
                     "' was not found; check its first line after #!, which may end "
                     "with an invisible \\r");
  const std::string interpreter = file("interpreter", "text\n", perms::owner_read);
  const std::string script = file("script", "#!" + interpreter + "\n", perms::owner_all);
  expect_refused(script, 126, "the interpreter of '" + script + "' is not an executable file; check its first line");
}

TEST(StartProblem, ALackOfProcessesHasARemedy) {
  EXPECT_THAT(describe_start_problem(EAGAIN, "./train", " on h1"),
              HasSubstr("'./train' could not be started on h1: no more processes are allowed; raise the limit (ulimit "
                        "-u, or that of the container), or start fewer ranks"));
}

TEST_F(Program, OnAMountWithNoexec) {
  const std::string path = file("program", "#!/bin/sh\n", perms::owner_all);
  const std::string mount = "mount -t tmpfs -o noexec none " + scratch_.path().string() +
                            " && printf '#!/bin/sh\\n' >" + path + " && chmod +x " + path;
  const Words inside = {"unshare", "-rm", "sh", "-c", mount + " && exec \"$@\"", "sh"};
  Words probe = inside;
  probe.push_back("true");
  if (testing::run(probe).code != 0) GTEST_SKIP() << "nothing can be mounted here";
  expect_refused(path, 126, "'" + path + "' is in a file system that is mounted with noexec; copy it", inside);
}

TEST_F(Program, InAFolderThatMayNotBeEntered) {
  std::filesystem::create_directory(scratch_ / "closed");
  const std::string path = file("closed/program", "#!/bin/sh\n", perms::owner_all);
  const perms before = std::filesystem::status(scratch_ / "closed").permissions();
  std::filesystem::permissions(scratch_ / "closed", perms::owner_read | perms::owner_write);
  // Root may enter every folder, unless it drops that capability.
  const Words without = {"setpriv", "--bounding-set=-dac_override,-dac_read_search"};
  expect_refused(path, 126, "'" + path + "' cannot be reached: you may not enter one of the folders in its path",
                 geteuid() == 0 ? without : Words());
  std::filesystem::permissions(scratch_ / "closed", before);
}

TEST_F(Agents, AFolderAsProgramIsNamedWithItsHost) {
  const Outcome outcome = testing::run(anello({"run", "-H", "h1", "--", "/tmp"}), around());
  EXPECT_EQ(outcome.code, 126);
  EXPECT_THAT(outcome.err, HasSubstr("'/tmp' is a folder on h1; name the program in it"));
}

TEST(StartProblem, ANameControlsNoTerminal) {
  EXPECT_EQ(describe_start_problem(ENOENT, "./a\x1b[31m\n", ""),
            "program not found: './a?[31m?' does not exist; check the path");
}

TEST_F(Agents, AFolderThatWasRemovedIsNamed) {
  const std::string gone = scratch_ / "gone";
  const std::string command = "mkdir $0 && cd $0 && rmdir $0 && exec " ANELLO_PROGRAM " run -H h1 -- true";
  const Outcome outcome = testing::run({"bash", "-c", command, gone}, around());
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("the current folder cannot be found (No such file or directory); change to one"));
}

TEST(ThisHost, MustLetFilesHoldTheSecret) {
  for (const std::string options : {"-n 2", "-H localhost:2"}) {
    const Outcome outcome =
        testing::run({"bash", "-c", "ulimit -f 0; exec " ANELLO_PROGRAM " run " + options + " -- true"});
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(without_crowding(outcome.err),
                HasSubstr("files may have only 0 bytes (ulimit -f), too few for the job's secret; raise the limit"));
  }
}

TEST(ThisHost, MustHaveLoopback) {
  if (testing::run({"unshare", "-rn", "true"}).code != 0) GTEST_SKIP() << "no network namespace can be made here";
  const std::string words = "there is no loopback address, so ranks of one host cannot connect; run: ip link set lo up";
  const Outcome run = testing::run({"unshare", "-rn", ANELLO_PROGRAM, "run", "-n", "2", "--", "true"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr(words));
  EXPECT_THAT(testing::run({"unshare", "-rn", ANELLO_PROGRAM, "doctor"}).out, HasSubstr("problems:\n  " + words));
}

}  // namespace
}  // namespace anello::launch
