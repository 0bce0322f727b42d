// `anello run` in an allocation of Slurm: which hosts and cores the ranks use, how the end of a step is reported, and a
// job that goes on without a host.
#include <gmock/gmock.h>

#include "tests/cluster/hosts.hpp"

namespace anello::cluster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(Allocation, OfOneHostIsUsedFromElsewhere) {
  const testing::Outcome outcome = on(0, "salloc -Q -N 1 -w h2 anello run -n 2 -- hostname");
  EXPECT_THAT(testing::lines(outcome.out), UnorderedElementsAre("[0] h2", "[1] h2")) << outcome.err;
  const testing::Outcome here = on(0, "salloc -Q -N 1 -w h0 anello run -n 2 -- hostname");
  EXPECT_THAT(testing::lines(here.out), UnorderedElementsAre("[0] h0", "[1] h0")) << here.err;
}

TEST(Allocation, OptionsInTheEnvironmentDoNotNarrowTheStep) {
  const testing::Outcome outcome =
      on(0,
         "salloc -Q -N 3 -n 6 -c 2 env SLURM_EXACT=1 SRUN_CPUS_PER_TASK=1 SLURM_GPUS_PER_TASK=1 SLURM_MEM_PER_CPU=1 "
         "anello run -n 6 -- sh -c '[ $ANELLO_RANK != 0 ] || scontrol -o show step $SLURM_JOB_ID.$SLURM_STEP_ID'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" Nodes=3 CPUs=12 Tasks=3 ")) << "all cores of the allocation";
}

TEST(Allocation, RanksMayRunLongAfterThoseOfAnotherHost) {
  const testing::Outcome outcome = on(
      0, "salloc -Q -N 3 -n 6 env SLURM_WAIT=1 anello run -n 6 -- sh -c '[ $(hostname) = h2 ] || sleep 3; echo done'");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(testing::lines(outcome.out).size(), 6u);
}

TEST(Allocation, ACancelledStepIsNamed) {
  const auto job =
      start(0, "salloc -Q -N 3 -n 6 anello run -n 6 -- sh -c 'echo $SLURM_JOB_ID.$SLURM_STEP_ID; sleep 300'");
  ASSERT_TRUE(job->says("\n"));
  const std::string first = testing::lines(job->out()).at(0);
  EXPECT_EQ(on(1, "scancel " + first.substr(first.find(' ') + 1)).code, 0);
  EXPECT_EQ(job->wait(), 1);
  // Slurm ends ranks, agents and `srun` in any order. After the first loss the launcher itself ends the other ranks, so
  // their hosts are named only if the launcher saw their loss before that.
  EXPECT_THAT(job->err(), ContainsRegex("hosts? h[^:]* w(as|ere) lost: (its agent was ended; )?`srun` "));
  // Slurm's daemon prints through the step's own standard error that the step was cancelled. If `srun` ends before this
  // text arrives, it prints only how the tasks ended.
  EXPECT_THAT(job->err(), ContainsRegex(" CANCELLED AT |: task [0-9]: Killed"));
  EXPECT_EQ(job->err().find("cpu binding"), std::string::npos) << job->err();
}

TEST(Restarting, AJobGoesOnWithoutALostHost) {
  const auto job =
      start(0,
            "ANELLO_SILENCE_LIMIT=3000 anello run -H h0:2,h1:2,h2:2 -n 4 --restarts 1 -- sh -c "
            "'[ $ANELLO_RESTART = 1 ] && exec anello-train --epochs 2; exec anello-train --epochs 1000000'");
  ASSERT_TRUE(job->says("epoch ")) << job->out() << job->err();
  const Unplugged unplugged(1);
  EXPECT_EQ(job->wait(), 0) << job->err();
  EXPECT_THAT(job->err(), HasSubstr("restart 1 of 1 in 1 s without host h1\n"));
  EXPECT_THAT(job->out(), HasSubstr(" on all 4 ranks"));
  expect_gone("anello-train");
}

}  // namespace
}  // namespace anello::cluster
