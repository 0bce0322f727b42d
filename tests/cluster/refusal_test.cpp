// Typical mistakes on the command line are refused with the reason and the remedy; commands that only look like
// mistakes work.
#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "tests/cluster/hosts.hpp"

namespace anello::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Refused, ASizeThatIsNotTheSteps) {
  const testing::Outcome outcome = on(0, "ANELLO_SIZE=4 srun -N 3 -n 6 " + kTrain);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("ANELLO_SIZE=4, but this is task 3 of 6 of Slurm step"),
                                 HasSubstr("SLURM_STEP_NUM_TASKS=6")));
}

TEST(Refused, ALauncherInEachTask) {
  const testing::Outcome outcome = on(0, "srun -N 3 -n 3 anello run -n 2 -- " + kTrain);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("task 2 of 3 of Slurm step"), HasSubstr("a job of its own")));
}

TEST(Refused, TasksThatCannotMeet) {
  const testing::Outcome outcome = on(0, "JOB_COMPLETION_INDEX=2 " + kTrain);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("task 2 of an indexed job of Kubernetes"), HasSubstr("MASTER_ADDR"),
                                 HasSubstr("ANELLO_SIZE=1")));
}

// The other ranks can resolve this host's name, but rank 0 has no address that they could use.
TEST(Refused, AMasterThatRank0CallsLocalhost) {
  ASSERT_EQ(on(0, "anello secret").code, 0);
  std::vector<std::unique_ptr<testing::Process>> ranks;
  for (int rank = 0; rank < 3; rank++)
    ranks.push_back(start(rank, text("RANK=", rank, " WORLD_SIZE=3 MASTER_ADDR=", rank == 0 ? "localhost" : "h0",
                                     " MASTER_PORT=29500 ", kTrain)));
  for (const auto& rank : ranks) {
    EXPECT_EQ(rank->wait(), 1) << rank->out();
    EXPECT_THAT(rank->err(), AllOf(HasSubstr("rank 0"), HasSubstr("is on the loopback address 127.0.0.1, where rank "),
                                   HasSubstr(" at 10.77.0."), HasSubstr("MASTER_ADDR")));
  }
}

// srun starts the program six times, though only the first process has the terminal.
TEST(NotRefused, AProgramUnderPty) {
  const testing::Outcome outcome = on(0, "srun -N 3 -n 6 --pty " + kTrain, {.terminal_columns = 200});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("training on 6 ranks, 3 hosts"));
}

// Trains on six ranks, two a host, that meet at `master`; the ranks of h0 run after `before`.
void train_at(const std::string& master, const std::string& before = "") {
  ASSERT_EQ(on(0, "anello secret").code, 0);
  std::vector<std::unique_ptr<testing::Process>> ranks;
  for (int rank = 5; rank >= 0; rank--)
    ranks.push_back(start(rank / 2, text(rank < 2 ? before : "", "RANK=", rank, " WORLD_SIZE=6 MASTER_ADDR=", master,
                                         " MASTER_PORT=29500 ", kTrain)));
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->err();
  expect_trained({0, ranks.back()->out(), ranks.back()->err()});
}

TEST(NotRefused, AHostWhoseNameIsLoopbackOnItself) {
  on(0, "sed 's/^[^ ]* h0$/127.0.1.1 h0/' /etc/hosts >hosts.debian");
  ASSERT_EQ(on(0, "grep '^127.0.1.1 h0' hosts.debian").code, 0);
  train_at("h0", "exec unshare --mount bash -c 'mount --bind hosts.debian /etc/hosts; exec \"$@\"' bash env ");
}

TEST(NotRefused, AnAddressOfIPv6) {
  train_at("fd00:77::1");
}

}  // namespace
}  // namespace anello::cluster
