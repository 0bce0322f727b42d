// anello-train --elastic under the launcher: processes end and others join, and the training is the same.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

#include "tests/launch/disturbed_job.hpp"
#include "tests/trainer/scratch.hpp"
#include "tests/trainer/training_log.hpp"

namespace anello::trainer {
namespace {

using anello::testing::Outcome;
using anello::testing::Process;
using launch::Words;
using ::testing::HasSubstr;

class ElasticProgram : public ::testing::Test {
 protected:
  Words elastic(int count, const Words& options) {
    Words command = launch::anello({"run", "-n", std::to_string(count), "--min-np", "1", "--", TRAIN_PROGRAM,
                                    "--elastic", "--global-batch", "16", "--log", log_, "--checkpoint", checkpoint_});
    command.insert(command.end(), options.begin(), options.end());
    return command;
  }
  static void kill_place(const Process& training, int place, int signal) {
    const pid_t pid = launch::process_at(training, place);
    ASSERT_GT(pid, 0);
    kill(pid, signal);
  }

  static constexpr int kMaxEvents = 200;
  const Scratch scratch_;
  const std::string log_ = scratch_ / "log", undisturbed_ = scratch_ / "undisturbed",
                    checkpoint_ = scratch_ / "checkpoint";
};

// Rank 0 holds the lock of the checkpoint and writes the log. The process that becomes rank 0 next takes over the lock
// and the log.
TEST_F(ElasticProgram, EndsAsIfNoRankHadBeenLost) {
  const Words epochs = {"--epochs", "40"};
  Process training(elastic(3, epochs), {.environment = {"ANELLO_SILENCE_LIMIT=2000", "ANELLO_FLIGHT_DIR=none"}});
  ASSERT_TRUE(training.says("epoch  2/40")) << training.err();
  kill_place(training, 0, SIGKILL);
  ASSERT_TRUE(training.says("[1] epoch "));
  kill_place(training, 1, SIGSTOP);
  EXPECT_EQ(training.wait(), 0) << training.out() << training.err();
  EXPECT_TRUE(training.none_left());
  EXPECT_FALSE(std::filesystem::exists(checkpoint_ + ".lock"));
  const Log disturbed(log_);
  EXPECT_GE(disturbed.worlds(), 3u);

  ASSERT_EQ(testing::run({TRAIN_PROGRAM, "--global-batch", "16", "--epochs", "40", "--log", undisturbed_}).code, 0);
  EXPECT_EQ(difference(disturbed, Log(undisturbed_)), "");
  EXPECT_THAT(
      testing::run({TRAIN_PROGRAM, "--global-batch", "16", "--epochs", "40", "--checkpoint", checkpoint_, "--resume"})
          .out,
      HasSubstr("continuing after epoch 40 from"));
}

TEST_F(ElasticProgram, SigtermSavesACheckpointFromWhichAnotherJobContinues) {
  Process training(elastic(3, {"--epochs", "1000000"}));
  ASSERT_TRUE(training.says("epoch ")) << training.err();
  kill_place(training, 1, SIGTERM);
  EXPECT_EQ(training.wait(), 128 + SIGTERM) << training.err();
  EXPECT_THAT(training.out(), HasSubstr("[0] stopped by SIGTERM in epoch "));
  const std::size_t epochs = Log(log_).epochs() + 2;
  const Outcome resumed = testing::run(elastic(2, {"--epochs", std::to_string(epochs), "--resume"}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("continuing after epoch "));
  ASSERT_EQ(
      testing::run({TRAIN_PROGRAM, "--global-batch", "16", "--epochs", std::to_string(epochs), "--log", undisturbed_})
          .code,
      0);
  EXPECT_EQ(difference(Log(log_), Log(undisturbed_)), "");
}

TEST_F(ElasticProgram, ACheckpointThatCannotBeReadEndsTheJob) {
  scratch_.put("checkpoint", "ANELLOCK");
  const Outcome outcome = testing::run(elastic(2, {"--resume"}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("[0] anello-train: checkpoint '" + checkpoint_ + "' is not a checkpoint"));
  EXPECT_THAT(outcome.err, HasSubstr("[1] anello-train: "));
  EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("training on")));
}

// The process that takes the place of a lost one trains with another seed.
TEST_F(ElasticProgram, AProcessWithOtherOptionsEndsAlone) {
  Words command = elastic(2, {"--epochs", "60"});
  const Words script = {"sh", "-c", "[ $ANELLO_RESTART = 0 ] || exec \"$@\" --seed 2; exec \"$@\"", "sh"};
  command.insert(std::ranges::find(command, TRAIN_PROGRAM), script.begin(), script.end());
  Process training(command);
  ASSERT_TRUE(training.says("epoch  1/60")) << training.err();
  kill_place(training, 1, SIGKILL);
  ASSERT_TRUE(training.says_error("--seed 2")) << training.err();
  EXPECT_EQ(training.wait(), 0) << training.err();
  EXPECT_THAT(training.err(), HasSubstr("[1] anello-train: "));
  EXPECT_THAT(training.out(), HasSubstr("[0] done: test accuracy "));
}

// ANELLO_ELASTIC_EPOCHS sets the length of the training. About three events happen in a second.
TEST_F(ElasticProgram, ManyEventsChangeNothing) {
  const char* const epochs = std::getenv("ANELLO_ELASTIC_EPOCHS");
  const Words program = {TRAIN_PROGRAM, "--elastic", "--global-batch", "16", "--epochs", epochs ? epochs : "60",
                         "--log",       log_};
  Words alone = program;
  std::ranges::replace(alone, log_, undisturbed_);
  alone.erase(alone.begin() + 1);
  ASSERT_EQ(testing::run(alone).code, 0);
  launch::with_seeds(1, [&](unsigned seed) -> std::string {
    launch::DisturbedJob job({.seed = seed, .first = 8, .min = 2, .max = 8}, program);
    if (!job.begins()) return "it does not begin; " + job.story();
    job.disturb([&] { return job.events() >= kMaxEvents; });
    const int code = job.launcher().wait();
    if (!job.ends_well()) return text("it ended with ", code, "; ", job.story());
    if (!job.launcher().none_left()) return "processes are left; " + job.story();
    const Log log(log_);
    const std::string wrong = difference(log, Log(undisturbed_));
    std::printf("%d events, %zu worlds, accuracy %.4f\n", job.events(), log.worlds(), log.accuracy());
    return wrong.empty() ? "" : wrong + "; " + job.story();
  });
}

TEST_F(ElasticProgram, AJobThatMayChangeNeedsTheOption) {
  const Outcome outcome = testing::run(launch::anello({"run", "-n", "2", "--min-np", "1", "--", TRAIN_PROGRAM}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("this job is elastic (--min-np, --max-np); give --elastic to train in it"));
}

}  // namespace
}  // namespace anello::trainer
