// Programs that must not get into a job: a program of another user, without the secret, or of another job.
#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "tests/cluster/hosts.hpp"
#include "tests/support/pattern.hpp"

namespace anello::cluster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// One task of a step of six tasks. It saves its environment; the last task starts only when the file `go` exists.
const std::string kTask =
    "bash -c 'env -0 >env.part.$SLURM_PROCID && mv env.part.$SLURM_PROCID env.$SLURM_PROCID; "
    "[ $SLURM_PROCID != 5 ] || until [ -e go ]; do sleep 0.05; done; exec " +
    kTrain + "'";

bool is_incomplete() {
  return processes("anello-train").size() >= 5 && on(0, "[ -e env.5 ] && ss -ltnpH | grep -q anello-train").code == 0;
}

std::unique_ptr<testing::Process> incomplete_job(const std::string& options, const std::string& variables = "") {
  on(0, "rm -f go env.*");
  auto job = start(0, variables + " srun -N 3 -n 6 " + options + " " + kTask);
  EXPECT_TRUE(eventually(is_incomplete)) << job->out() << job->err();
  return job;
}

void complete(testing::Process& job) {
  on(0, "touch go");
  const int code = job.wait();
  expect_trained({code, job.out(), job.err()});
}

// Runs the program as the missing task of that step, with a short start timeout; `before` is the command that starts
// it.
std::string as_task_5(const std::string& before, const std::string& environment = "env.5") {
  return before + " env -i bash -c 'while IFS= read -r -d \"\" variable; do export \"$variable\"; done <" +
         environment + "; export ANELLO_START_TIMEOUT=3000; exec anello-train'";
}
const std::string kAsGuest = "setpriv --reuid=5077 --regid=5077 --clear-groups ";

// Returns the output of programs on host `from`, which must be refused at every port on which the job listens on h0, at
// `address`. They have the name of the job and its size, but not its secret.
std::string knock(int from, const std::string& address, const std::string& job, int size, const std::string& before) {
  const testing::Outcome sockets = on(0, "ss -ltnpH | grep anello-train");
  std::string said;
  for (const std::string& line : testing::lines(sockets.out)) {
    const auto port = pattern::find(line, R"(:(\d+) )");
    if (!port) return ADD_FAILURE() << line, said;
    const testing::Outcome outcome =
        on(from, text(before, "env ANELLO_SIZE=", size, " ANELLO_RANK=", size - 1, " ANELLO_JOB=", job,
                      " ANELLO_START_TIMEOUT=3000 XDG_CONFIG_HOME=/nowhere ANELLO_RENDEZVOUS=", address, ":",
                      (*port)[1], " anello-train"));
    EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
    said += outcome.err;
  }
  return said;
}
std::string variable_of_task_5(const std::string& name) {
  return testing::lines(on(0, "tr '\\0' '\\n' <env.5 | sed -n 's/^" + name + "=//p'").out).at(0);
}

TEST(Trust, AnotherUserIsRefusedByMunge) {
  const auto job = incomplete_job("");
  const testing::Outcome guest = on(2, as_task_5(kAsGuest));
  EXPECT_EQ(guest.code, 1) << guest.out << guest.err;
  EXPECT_THAT(guest.err, HasSubstr("refused this process's munge credential: another user made it")) << guest.out;
  complete(*job);
}

// A process that the process manager did not start has no connection to it, and so does not get the secret.
TEST(Trust, AnotherUserIsRefusedByAProcessManager) {
  const auto job = incomplete_job("--mpi=pmi2");
  const testing::Outcome guest = on(2, as_task_5(kAsGuest));
  EXPECT_EQ(guest.code, 1) << guest.out << guest.err;
  EXPECT_THAT(guest.err, AllOf(HasSubstr("no rendezvous of Slurm step"), HasSubstr("tried h0:")));
  EXPECT_THAT(knock(2, "h0", "manager-" + variable_of_task_5("PMI_JOBID"), 6, kAsGuest),
              HasSubstr("the job has a secret"));
  complete(*job);
}

TEST(Trust, AProgramWithoutTheSecretIsRefused) {
  const auto job = incomplete_job("");
  EXPECT_EQ(on(0, "anello secret other").code, 0);
  const std::string name = "slurm-test-" + variable_of_task_5("SLURM_JOB_ID") + "-0-0";
  EXPECT_THAT(knock(2, "h0", name, 6, ""), HasSubstr("the job has a secret"));
  EXPECT_THAT(knock(2, "h0", name, 6, "ANELLO_SECRET_FILE=other "), HasSubstr("the secrets of the two sides differ"));
  complete(*job);
}

// The ranks meet without munge, without a process manager and without a file.
TEST(Trust, AnotherUserOfOneHostIsRefused) {
  const auto rank = [](int number, const std::string& more) {
    return text("XDG_CONFIG_HOME=/nowhere RANK=", number, " WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29500 ",
                more);
  };
  const auto first = start(0, rank(0, kTrain));
  EXPECT_TRUE(eventually([] { return on(0, "ss -ltnpH | grep -q anello-train").code == 0; })) << first->err();
  const testing::Outcome guest = on(0, rank(1, kAsGuest + "env ANELLO_START_TIMEOUT=3000 anello-train"));
  EXPECT_EQ(guest.code, 1) << guest.out << guest.err;
  EXPECT_THAT(guest.err, HasSubstr("no rendezvous of RANK and WORLD_SIZE"));
  EXPECT_THAT(guest.err, HasSubstr("the local socket of user 5077"));
  EXPECT_THAT(knock(0, "127.0.0.1", "master-29500----", 2, kAsGuest), HasSubstr("the job has a secret"));
  EXPECT_EQ(on(0, rank(1, kTrain)).code, 0);
  EXPECT_EQ(first->wait(), 0) << first->err();
}

TEST(Trust, WhereThereIsNoSecretItIsSaid) {
  const std::string nothing = "XDG_CONFIG_HOME=/nowhere ";
  const testing::Outcome by_variables =
      on(0, nothing + "RANK=0 WORLD_SIZE=2 MASTER_ADDR=h0 MASTER_PORT=29500 " + kTrain);
  EXPECT_EQ(by_variables.code, 1) << by_variables.out;
  EXPECT_THAT(by_variables.err, HasSubstr("anello secret"));
  const testing::Outcome step = on(0, nothing + "MUNGE_SOCKET=/nowhere/munge srun -N 3 -n 3 " + kTrain);
  EXPECT_NE(step.code, 0) << step.out;
  EXPECT_THAT(step.err, HasSubstr("anello secret"));
  EXPECT_THAT(step.err, HasSubstr("of Slurm step"));
}

// If both jobs have the same eight ports, the old task gets the secret of the present job.
TEST(Trust, ATaskOfTheJobBeforeIsNotTakenForOneOfThis) {
  const std::string ports = "ANELLO_PORT_RANGE=25000-25007";
  const auto before = incomplete_job("", ports);
  on(0, "mv env.5 stale && scancel -u root");
  before->wait();
  expect_gone("anello-train");
  const auto job = incomplete_job("", ports);
  const testing::Outcome stale = on(2, as_task_5("", "stale"));
  EXPECT_EQ(stale.code, 1) << stale.out << stale.err;
  EXPECT_THAT(stale.err, AllOf(HasSubstr("no rendezvous of Slurm step"), HasSubstr("it belongs to job 'slurm-test-")));
  complete(*job);
}

// By default Slurm restarts a job only when all credentials of its previous run have expired. If a job starts in the
// second in which its previous run ended, the start fails ("already killed").
TEST(Trust, ATaskOfTheRunBeforeARequeueIsNotTakenForOneOfThisRun) {
  const auto none_queued = [] { return on(0, "squeue -h").out.empty(); };
  ASSERT_TRUE(eventually(none_queued));
  on(0, "rm -f go env.*; printf '#!/bin/bash\nsrun %s\n' \"$TASK\" >requeued.sh", {.environment = {"TASK=" + kTask}});
  ASSERT_EQ(on(0, "sbatch -N 3 -n 6 --requeue -o out.requeued requeued.sh").code, 0);
  ASSERT_TRUE(eventually(is_incomplete));
  const testing::Outcome requeued = on(0, "mv env.5 stale && scontrol requeue $(squeue -h -o %i)");
  ASSERT_EQ(requeued.code, 0) << requeued.err;
  ASSERT_TRUE(eventually([] { return on(0, "squeue -h -o %T").out == "PENDING\n"; })) << on(0, "squeue").out;
  const testing::Outcome updated = on(0, "scontrol update jobid=$(squeue -h -o %i) starttime=now+2");
  ASSERT_EQ(updated.code, 0) << updated.err;
  ASSERT_TRUE(eventually(is_incomplete)) << on(0, "scontrol show job; cat out.requeued").out;
  const testing::Outcome stale = on(2, as_task_5("", "stale"));
  EXPECT_EQ(stale.code, 1) << stale.out;
  EXPECT_THAT(stale.err, HasSubstr("no rendezvous of Slurm step"));
  on(0, "touch go");
  EXPECT_TRUE(eventually(none_queued));
  expect_trained(on(0, "cat out.requeued"));
}

}  // namespace
}  // namespace anello::cluster
