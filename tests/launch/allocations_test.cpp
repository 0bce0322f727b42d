// Jobs in a scheduler's allocation: the hosts of their ranks, and the commands that start them. A fake srun starts
// agents on this host.
#include "tests/launch/agents.hpp"

namespace anello::launch {
namespace {

TEST_F(Agents, InAnAllocationOfSeveralHostsTheSchedulerStartsThem) {
  std::filesystem::create_symlink(FAKE_SRUN, scratch_ / "srun");
  std::filesystem::remove(scratch_ / "anello");
  const Surroundings allocation = around({"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-3]", "SLURM_TASKS_PER_NODE=2(x3)",
                                          "PATH=" + scratch_.path().string() + ":/usr/bin:/bin", "KEPT=1"});
  const Outcome outcome = testing::run(ranks(6, "echo $ANELLO_RANK on $FAKE_HOST $KEPT"), allocation);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(testing::lines(outcome.out), UnorderedElementsAre("[0] 0 on h1 1", "[1] 1 on h1 1", "[2] 2 on h2 1",
                                                                "[3] 3 on h2 1", "[4] 4 on h3 1", "[5] 5 on h3 1"));
  const Outcome many = testing::run(ranks(7, "true"), allocation);
  EXPECT_EQ(many.code, 2);
  EXPECT_THAT(many.err, HasSubstr("7 ranks do not fit: there are 6 slots on 3 hosts (h1: 2, h2: 2, h3: 2)"));
}

TEST_F(Agents, AnAllocationOfOneHostIsUsedFromElsewhere) {
  std::filesystem::create_symlink(FAKE_SRUN, scratch_ / "srun");
  const auto in_allocation = [&](const std::string& host, Words options) {
    Words words = {"run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", "echo on $FAKE_HOST"});
    return testing::run(anello(words), around({"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=" + host, "SLURM_TASKS_PER_NODE=3",
                                               "PATH=" + scratch_.path().string() + ":/usr/bin:/bin"}));
  };
  const Outcome two = in_allocation("h1", {"-n", "2"});
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(testing::lines(two.out), UnorderedElementsAre("[0] on h1", "[1] on h1"));
  EXPECT_EQ(testing::lines(in_allocation("h1", {"-n", "5"}).out).size(), 5u) << "one host runs what the user says";
  EXPECT_EQ(testing::lines(in_allocation("h1", {}).out).size(), 3u) << "its slots";
  const std::string own = testing::lines(testing::run({"hostname"}).out).at(0);
  EXPECT_THAT(testing::lines(in_allocation(own, {"-n", "2"}).out), UnorderedElementsAre("[0] on", "[1] on"));
  EXPECT_THAT(testing::lines(in_allocation(own, {}).out).size(), 3u);
}

TEST_F(Agents, HostsOutsideOfTheAllocationAreRefused) {
  const auto run = [this](const std::string& hosts, Words options) {
    return testing::run(job(hosts, "echo on $FAKE_HOST", std::move(options)),
                        around({"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-3]", "SLURM_TASKS_PER_NODE=2(x3)",
                                "PATH=" + scratch_.path().string() + ":/usr/bin:/bin"}));
  };
  const Outcome refused = run("h1,h9", {});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("host h9 is not in Slurm job 7, which has hosts h1, h2 and h3; leave it out, or "
                                     "add --ssh"));
  const Outcome by_ssh = run("h1,h9", {"--ssh", (scratch_ / "ssh").string()});
  EXPECT_THAT(testing::lines(by_ssh.out), UnorderedElementsAre("[0] on h1", "[1] on h9")) << by_ssh.err;
  EXPECT_EQ(by_ssh.err, "");
  std::filesystem::create_symlink(FAKE_SRUN, scratch_ / "srun");
  EXPECT_THAT(run("h1", {"--dry-run"}).out, HasSubstr("other hosts are reached by: srun\n"));
  EXPECT_THAT(testing::lines(run("h3.site,h1", {}).out), UnorderedElementsAre("[0] on h3", "[1] on h1"))
      << "Slurm knows it by the short name";
  EXPECT_THAT(testing::lines(run("h3.site,h3", {}).out), UnorderedElementsAre("[0] on h3", "[1] on h3"));
}

TEST_F(Agents, WhatReachesOtherHostsIsSaid) {
  const auto plan = [this] {
    return testing::run(job("h1", "true", {"--dry-run"}),
                        around({"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-3]", "SLURM_TASKS_PER_NODE=2(x3)",
                                "PATH=" + scratch_.path().string()}));
  };
  const Outcome by_ssh = plan();
  EXPECT_THAT(by_ssh.out, HasSubstr("other hosts are reached by: " + (scratch_ / "ssh").string() + "\n"));
  EXPECT_THAT(by_ssh.err, HasSubstr("srun is not in PATH, so ranks are started by ssh, outside of the limits"));
  std::filesystem::create_symlink(FAKE_SRUN, scratch_ / "srun");
  const Outcome by_srun = plan();
  EXPECT_THAT(by_srun.out, HasSubstr("other hosts are reached by: srun\n"));
  EXPECT_EQ(by_srun.err, "");
}

TEST_F(Agents, OptionsOfTheSurroundingsDoNotShapeOurStep) {
  scratch_.put("srun", "#!/bin/sh\nenv | grep -E '^(SLURM|SRUN)_' >" + (scratch_ / "seen").string() + "\nexec " +
                           FAKE_SRUN + " \"$@\"\n");
  std::filesystem::permissions(scratch_ / "srun", std::filesystem::perms::owner_all);
  const Outcome outcome =
      testing::run(ranks(3, "echo $SRUN_CPUS_PER_TASK $SLURM_JOB_ID"),
                   around({"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-3]", "SLURM_TASKS_PER_NODE=1(x3)",
                           "SRUN_CPUS_PER_TASK=5", "SLURM_EXACT=1", "SLURM_MEM_PER_NODE=100", "SLURM_CPU_BIND_LIST=0x1",
                           "SLURM_ACCOUNT=mine", "PATH=" + scratch_.path().string() + ":/usr/bin:/bin"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string seen = bytes_of((scratch_ / "seen").string());
  for (const char* kept : {"SLURM_JOB_ID=7\n", "SLURM_JOB_NODELIST=", "SLURM_ACCOUNT=mine\n"})
    EXPECT_THAT(seen, HasSubstr(kept));
  for (const char* left_out : {"CPUS_PER_TASK", "EXACT", "MEM_PER_NODE", "CPU_BIND"})
    EXPECT_FALSE(contains(seen, left_out)) << seen;
  EXPECT_THAT(testing::lines(outcome.out), UnorderedElementsAre("[0] 5 7", "[1] 5 7", "[2] 5 7")) << "ranks have them";
}

TEST_F(Agents, WhatEndedSrunIsNamedAndNotItsOtherWords) {
  scratch_.put("srun", text("#!/bin/sh\necho srun: cluster configuration lacks support for cpu binding >&2\n"
                            "echo $$ >",
                            (scratch_ / "pid").string(), "\nexec ", FAKE_SRUN, " \"$@\"\n"));
  std::filesystem::permissions(scratch_ / "srun", std::filesystem::perms::owner_all);
  Process running(ranks(3, "echo up; exec sleep 300"),
                  around({"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=h[1-3]", "SLURM_TASKS_PER_NODE=1(x3)",
                          "PATH=" + scratch_.path().string() + ":/usr/bin:/bin"}));
  ASSERT_TRUE(running.says("[0] up") && running.says("[1] up") && running.says("[2] up")) << running.err();
  kill(pid_t(std::stol(bytes_of((scratch_ / "pid").string()))), SIGKILL);
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), HasSubstr("hosts h1, h2 and h3 were lost: `srun` was killed by signal 9 (Killed)\n"));
  EXPECT_TRUE(running.none_left());
}

}  // namespace
}  // namespace anello::launch
