// Commands that people type on a cluster. Each trains on six ranks of three hosts, with nothing set by hand, and must
// have the result of six ranks on one host.
#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "tests/cluster/hosts.hpp"

namespace anello::cluster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Returns the batch job's output; `sbatch --wait` would check its end only after 10 s.
testing::Outcome batch(int host, const std::string& job) {
  return on(host, "id=$(sbatch --parsable -o out.batch " + job +
                      ") && while [ -n \"$(squeue -h -j $id)\" ]; do sleep 0.1; done; cat out.batch");
}

TEST(Slurm, Srun) {
  const testing::Outcome outcome = on(0, "bash " + recipe("srun.sh") + " --epochs 2");
  expect_trained(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("training on 6 ranks, 3 hosts"));
}
TEST(Slurm, SrunInABlockAndInTurn) {
  for (const std::string distribution : {"block", "cyclic", "plane=1"})
    expect_trained(on(1, "srun -N 3 -n 6 -m " + distribution + " " + kTrain));
}
TEST(Slurm, SrunWithUnequalHosts) {
  expect_trained(on(0, "srun -n 6 -N 2 " + kTrain));
  expect_trained(
      on(0, "printf '%s\\n' h1 h0 h2 h0 h1 h0 >order; SLURM_HOSTFILE=order srun -n 6 -m arbitrary " + kTrain));
}
TEST(Slurm, SrunWithAProcessManager) {
  for (const std::string manager : {"pmi2", "pmix"})
    expect_trained(on(0, "srun -N 3 -n 6 --mpi=" + manager + " " + kTrain));
}
// Some programs close all descriptors before they start others. Then the ranks meet by munge.
TEST(Slurm, SrunWhoseProcessManagerCannotBeReached) {
  expect_trained(on(0, "srun -N 3 -n 6 --mpi=pmi2 bash -c 'eval \"exec $PMI_FD>&-\"; exec " + kTrain + "'"));
}
TEST(Slurm, Sbatch) {
  expect_trained(batch(2, recipe("slurm.sbatch") + " --epochs 2"));
}
TEST(Slurm, SallocAndSrun) {
  expect_trained(on(0, "bash " + recipe("salloc.sh") + " --epochs 2"));
}
TEST(Slurm, SeveralStepsOfOneJobAtOnce) {
  const testing::Outcome both = on(0, "salloc -Q -N 3 -n 12 bash -c 'for step in 1 2; do srun --exact -N 3 -n 6 " +
                                          kTrain + " >out.$step & done; wait %1 && wait %2'; cat out.1");
  expect_trained(both);
  expect_trained(on(0, "cat out.2"));
}

// Slurm numbers the job's hosts by component, but lists them by name. With PMIx, Slurm 22.05 itself ends such a job.
TEST(Slurm, AHeterogeneousJob) {
  for (const std::string manager : {"none", "pmi2"})
    expect_trained(on(0, "srun --mpi=" + manager + " -w h2 -N 1 -n 2 " + kTrain + " : -w h0,h1 -N 2 -n 4 " + kTrain));
}

TEST(Launchers, OpenMpi) {
  expect_trained(on(0, "bash " + recipe("mpirun.sh") + " --epochs 2"));
}
TEST(Launchers, Mpich) {
  expect_trained(on(0, "bash " + recipe("mpiexec.sh") + " --epochs 2"));
}
TEST(Launchers, ShellsWithTorchrunsVariables) {
  ASSERT_EQ(on(0, "anello secret").code, 0);
  expect_trained(on(1, "bash " + recipe("ssh.sh") + " --epochs 2"));
}

// Debian's torchrun 1.13 fails with Python 3.11 if its output is not redirected, which is the default. Here the output
// of a rank that does not exist goes to a file, and all ranks write to torchrun's output.
const std::string kTorchrun = "PET_REDIRECTS=9:1 PET_TEE=9:1 ";

// Starts `command` on each host with NODE_RANK set; the ranks share a secret in the home directory.
void expect_trained_by_torchrun(const std::string& command) {
  ASSERT_EQ(on(0, "anello secret").code, 0);
  std::vector<std::unique_ptr<testing::Process>> agents;
  for (int host = 0; host < 3; host++) agents.push_back(start(host, text(kTorchrun, "NODE_RANK=", host, " ", command)));
  testing::Outcome all = end_of(*agents[0]);
  for (int host = 1; host < 3; host++) {
    const testing::Outcome other = end_of(*agents[std::size_t(host)]);
    EXPECT_EQ(other.code, 0) << other.err;
    all.out += other.out;
  }
  expect_trained(all);
}
TEST(Launchers, Torchrun) {
  expect_trained_by_torchrun("MASTER_ADDR=h0 bash " + recipe("torchrun.sh") + " --epochs 2");
}
TEST(Launchers, TorchrunWhichNumbersTheRanks) {
  expect_trained_by_torchrun(
      "torchrun --nnodes=3 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=h0:29400 --rdzv_id=7 --no_python " +
      kTrain);
}

TEST(Launchers, AnelloRunOnHosts) {
  expect_trained(on(1, "bash " + recipe("anello_run.sh") + " --epochs 2"));
}
TEST(Launchers, AnelloRunInAnAllocation) {
  const testing::Outcome outcome = on(0, "salloc -Q -N 3 -n 6 anello run -n 6 -- " + kTrain);
  expect_trained(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("training on 6 ranks, 3 hosts"));
}

TEST(GridEngine, Qsub) {
  start_grid_engine();
  const testing::Outcome outcome =
      on(0, ". ./.gridengine; qsub -sync y -j y -o out.sge " + recipe("sge.sh") + " --epochs 2; cat out.sge");
  expect_trained(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("training on 6 ranks, 3 hosts"));
}

// For schedulers that are not installed here, the test makes the variables and files of a job's environment, and for
// LSF a fake of its command that starts remote tasks.
TEST(StandIns, NodeFiles) {
  on(0, "printf '%s\\n' h0 h0 h1 h1 h2 h2 >slots; printf '%s\\n' h0 h1 h2 >hosts");
  expect_trained(on(0, "PBS_JOBID=7.h0 PBS_NODEFILE=slots bash " + recipe("pbs.sh") + " --epochs 2"));
  expect_trained(on(0, "COBALT_JOBID=7 COBALT_NODEFILE=hosts bash " + recipe("cobalt.sh") + " --epochs 2"));
}
TEST(StandIns, KubernetesPods) {
  const testing::Outcome pods =
      testing::run({"nsenter", "--net=/run/netns/switch", "/usr/bin/python3", "-B", in_tree("tests/cluster/pods.py"),
                    recipe("kubernetes.yaml"), "--epochs", "2"});
  expect_trained(pods);
  EXPECT_THAT(pods.out, HasSubstr("training on 6 ranks, 6 hosts"));
  EXPECT_THAT(pods.out, ContainsRegex("before their names were known: [1-9]"));
}
TEST(StandIns, Blaunch) {
  on(0, "mkdir -p bin && printf '#!/bin/sh\\nexec ssh \"$@\"\\n' >bin/blaunch && chmod +x bin/blaunch");
  expect_trained(on(
      0, "PATH=$PWD/bin:$PATH LSB_JOBID=7 LSB_MCPU_HOSTS='h0 2 h1 2 h2 2' bash " + recipe("lsf.sh") + " --epochs 2"));
}

TEST(Alone, AnInteractiveShell) {
  for (const std::string manager : {"none", "pmi2", "pmix"}) {
    const auto shell = start(0, "srun -N 3 -n 6 --mpi=" + manager + " --pty bash --norc", {.terminal_columns = 200});
    shell->type(kTrain + "; exit\n");
    const int code = shell->wait();
    expect_alone({code, shell->out(), ""});
  }
}
// setsid gives each task its own process group, like the programs of a shell.
TEST(Slurm, AStepFromAnInteractiveShell) {
  const auto shell = start(0, "srun -N 3 -n 6 --pty bash --norc", {.terminal_columns = 200});
  shell->type("srun --overlap -N 3 -n 6 setsid --wait " + kTrain + " </dev/null; exit\n");
  const int code = shell->wait();
  expect_trained({code, shell->out(), ""});
}
TEST(Alone, ABatchScriptWithoutSrun) {
  expect_alone(batch(0, "-N 3 -n 6 --wrap '" + kTrain + "'"));
}
TEST(Alone, AShellOfAnAllocation) {
  const testing::Outcome outcome = on(0, "salloc -Q -N 3 -n 6 bash -c '" + kTrain + "'");
  expect_alone(outcome);
  EXPECT_THAT(outcome.err, HasSubstr("has 6 tasks: start it with `srun` or `anello run`"));
}
TEST(Alone, ThoseThatAreMeantToBe) {
  expect_alone(on(0, "ANELLO_SIZE=1 srun -N 3 -n 3 " + kTrain), 3);
}

}  // namespace
}  // namespace anello::cluster
