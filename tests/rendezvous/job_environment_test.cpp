// The placements for given environments, most of which were captured from real launchers (environments/*.env).
#include "rendezvous/join/job_environment.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <fstream>
#include <map>

#include "rendezvous/join/join_plan.hpp"
#include "rendezvous/join/slurm_step.hpp"

namespace anello::rendezvous {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Environment = std::map<std::string, std::string>;

Environment captured(const std::string& name, const Environment& changes = {}) {
  std::ifstream file(ENVIRONMENTS "/" + name + ".env");
  EXPECT_TRUE(file) << name;
  Environment out = changes;
  for (std::string line; std::getline(file, line);)
    if (!line.starts_with('#')) out.emplace(line.substr(0, line.find('=')), line.substr(line.find('=') + 1));
  return out;
}

// The process of a task without a terminal. It is in its own process group.
const Processes kOfATask{77, [](int) { return 50; }};

std::vector<Placement> found_in(const Environment& environment, const Processes& processes = kOfATask) {
  const auto variables = [&](const char* name) -> std::optional<std::string> {
    const auto at = environment.find(name);
    if (at == environment.end() || at->second.empty()) return std::nullopt;
    return at->second;
  };
  return placements(variables, processes);
}

JoinPlan plan_in(const Environment& environment, const Settings& settings = {}, const Processes& processes = kOfATask) {
  return plan_join(settings, found_in(environment, processes));
}

std::string refusal_in(const Environment& environment, const Settings& settings = {}) {
  try {
    (void)plan_in(environment, settings);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::configuration);
    return error.what();
  }
  return "accepted";
}

Settings with(int size, int rank = -1, const std::string& rendezvous = "") {
  Settings settings;
  settings.size = size;
  settings.rank = rank;
  settings.rendezvous = rendezvous;
  return settings;
}

struct Expected {
  std::string file;
  int rank, size, local_rank;
  std::vector<Way> ways;
  std::string host;  // host of the last way
  bool serves;
};

class Captured : public testing::TestWithParam<Expected> {};

TEST_P(Captured, IsOneOfSeveral) {
  const Expected& expected = GetParam();
  const JoinPlan plan = plan_in(captured(expected.file));
  EXPECT_FALSE(plan.alone);
  EXPECT_EQ(plan.settings.rank, expected.rank);
  EXPECT_EQ(plan.settings.size, expected.size);
  EXPECT_EQ(plan.settings.local_rank, expected.local_rank);
  std::vector<Way> ways;
  for (const Placement& one : plan.ways) ways.push_back(one.way);
  EXPECT_EQ(ways, expected.ways);
  EXPECT_EQ(plan.ways.back().host, expected.host);
  EXPECT_EQ(plan.ways.back().serves, expected.serves);
}

constexpr Way kFirstHost = Way::first_host;
INSTANTIATE_TEST_SUITE_P(, Captured,
                         testing::Values(Expected{"srun", 3, 6, 1, {kFirstHost}, "h0", false},
                                         Expected{"srun_cyclic", 4, 6, 1, {kFirstHost}, "h0", false},
                                         Expected{"srun_uneven", 3, 4, 0, {kFirstHost}, "h0", false},
                                         Expected{"srun_arbitrary", 0, 4, 0, {kFirstHost}, "h0", false},
                                         Expected{"srun_arbitrary_first_host", 3, 4, 0, {kFirstHost}, "h0", true},
                                         Expected{"srun_pmi2", 2, 6, 0, {Way::pmi, kFirstHost}, "h0", false},
                                         Expected{"srun_pmix", 3, 6, 1, {Way::pmix, kFirstHost}, "h0", false},
                                         Expected{"salloc_srun", 4, 6, 0, {kFirstHost}, "h0", false},
                                         Expected{"sbatch_srun", 5, 6, 1, {kFirstHost}, "h0", false},
                                         Expected{"salloc_step_srun", 0, 6, 0, {kFirstHost}, "h0", true},
                                         Expected{"sbatch_requeued", 0, 2, 0, {kFirstHost}, "h0", true},
                                         Expected{"srun_components", 0, 4, 0, {kFirstHost}, "h0", false},
                                         Expected{"srun_components_first_host", 2, 4, 0, {kFirstHost}, "h0", true},
                                         Expected{"salloc_openmpi", 4, 6, 0, {Way::pmix}, "", false},
                                         Expected{"salloc_mpich", 4, 6, 0, {Way::pmi}, "", false},
                                         Expected{"openmpi", 1, 2, 1, {Way::pmix}, "", false},
                                         Expected{"mpich", 1, 2, 1, {Way::pmi}, "", false},
                                         Expected{"torchrun", 3, 4, 1, {Way::master}, "h0", false}),
                         [](const auto& one) { return one.param.file; });

TEST(JobEnvironment, ShellsAndScriptsAreAlone) {
  for (const char* name : {"salloc", "sbatch"}) {
    EXPECT_THAT(found_in(captured(name)), IsEmpty()) << name;
    EXPECT_TRUE(plan_in(captured(name)).alone) << name;
  }
  EXPECT_TRUE(plan_in(captured("salloc_srun_one")).alone);
  EXPECT_TRUE(plan_in({}).alone);
  EXPECT_TRUE(plan_in({{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "h0"}}).alone);
  EXPECT_TRUE(plan_in({{"RANK", "first"}}).alone);
  EXPECT_TRUE(plan_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).alone);
}

// Recorded with the environments: a shell leads the session of its terminal, and its programs have other groups.
Processes of_the_shell_in(const Environment& environment) {
  const int shell = std::stoi(environment.at("SLURM_TASK_PID"));
  return {shell + 13, [shell](int pid) { return pid == shell ? shell : 50; }};
}

TEST(JobEnvironment, AnInteractiveShellIsAlone) {
  for (const char* name : {"srun_pty", "srun_pty_pmi2", "srun_pty_pmix", "salloc_step"}) {
    const Environment shell = captured(name);
    EXPECT_THAT(found_in(shell, of_the_shell_in(shell)), IsEmpty()) << name;
  }
}

TEST(JobEnvironment, OneAloneInAnAllocationOfSeveralTasksIsTold) {
  const auto told = [](const std::string& name, const Environment& changes = {}) {
    const Environment environment = captured(name, changes);
    return alone_in_an_allocation([&](const char* variable) -> std::optional<std::string> {
      const auto at = environment.find(variable);
      return at == environment.end() || at->second.empty() ? std::nullopt : std::optional(at->second);
    });
  };
  for (const char* name : {"salloc", "sbatch", "srun_pty_pmi2", "salloc_step"})
    EXPECT_THAT(told(name),
                AllOf(HasSubstr(") has 6 tasks: start it with `srun` or `anello run`"), HasSubstr("ANELLO_SIZE=1")))
        << name;
  EXPECT_EQ(told("salloc", {{"SLURM_NTASKS", "1"}}), "");
  EXPECT_EQ(told("torchrun"), "");
}

TEST(JobEnvironment, OneAloneByHalfOfTheVariablesIsTold) {
  const auto told = [](const Environment& environment) {
    return alone_by_half_of_the_variables([&](const char* variable) -> std::optional<std::string> {
      const auto at = environment.find(variable);
      return at == environment.end() ? std::nullopt : std::optional(at->second);
    });
  };
  EXPECT_THAT(told({{"WORLD_SIZE", "4"}}), HasSubstr("runs alone: WORLD_SIZE=4 is set, but RANK is not"));
  EXPECT_THAT(told({{"RANK", "2"}, {"MASTER_ADDR", "h0"}}), HasSubstr("RANK=2 is set, but WORLD_SIZE is not"));
  for (const Environment& environment : {Environment{},
                                         {{"WORLD_SIZE", "1"}},
                                         {{"WORLD_SIZE", "01"}},
                                         {{"RANK", "first"}},
                                         {{"RANK", "0"}, {"WORLD_SIZE", "4"}},
                                         {{"MASTER_ADDR", "h0"}}})
    EXPECT_EQ(told(environment), "");
}

TEST(JobEnvironment, AProgramUnderPtyIsATask) {
  const Environment program = captured("srun_pty");
  Processes processes = of_the_shell_in(program);
  processes.own_group = std::stoi(program.at("SLURM_TASK_PID"));
  EXPECT_EQ(plan_in(program, {}, processes).settings.size, 2);
  EXPECT_EQ(plan_in(captured("srun_pty", {{"SLURM_PROCID", "1"}}), {}, of_the_shell_in(program)).settings.rank, 1);
}

// The tasks have their own process groups, as setsid and shells also give them.
TEST(JobEnvironment, TasksThatAnInteractiveShellStartedAreTasks) {
  for (const char* name : {"srun_pty_srun", "salloc_step_srun"}) {
    const Environment task = captured(name);
    EXPECT_TRUE(task.contains("SLURM_PTY_PORT"));
    const int steps_daemon = std::stoi(task.at("SLURM_TASK_PID")) - 10;
    for (const int session : {steps_daemon, -1}) {  // -1: setsid has started the program and ended
      const JoinPlan plan = plan_in(task, {}, {77, [session](int) { return session; }});
      EXPECT_EQ(plan.settings.rank, 0) << name;
      EXPECT_EQ(plan.settings.size, std::stoi(task.at("SLURM_STEP_NUM_TASKS"))) << name;
    }
  }
}

TEST(JobEnvironment, RanksThatAnInteractiveShellStartedByMpiAreRanks) {
  for (const auto& [name, way] : {std::pair("srun_pty_mpich", Way::pmi), std::pair("srun_pty_openmpi", Way::pmix)}) {
    const Environment rank = captured(name);
    const JoinPlan plan = plan_in(rank, {}, of_the_shell_in(rank));
    EXPECT_EQ(plan.settings.rank, 1) << name;
    EXPECT_EQ(plan.settings.size, 2) << name;
    ASSERT_THAT(plan.ways, SizeIs(1)) << name;
    EXPECT_EQ(plan.ways[0].way, way) << name;
  }
}

TEST(JobEnvironment, ASizeOfOneIsAloneEverywhere) {
  for (const char* name : {"srun", "srun_pmix", "openmpi", "mpich", "torchrun"})
    EXPECT_TRUE(plan_in(captured(name), with(1)).alone) << name;
}

TEST(JobEnvironment, SettingsThatContradictTheLauncherAreRefused) {
  EXPECT_THAT(refusal_in(captured("srun"), with(4, -1, "h0:1")),
              AllOf(HasSubstr("ANELLO_SIZE=4, but this is task 3 of 6 of Slurm step 1.0"),
                    HasSubstr("SLURM_STEP_NUM_TASKS=6"), HasSubstr("ANELLO_SIZE=1")));
  EXPECT_THAT(refusal_in(captured("srun"), with(6, 5)), HasSubstr("ANELLO_RANK=5, but this is task 3 of 6"));
  EXPECT_EQ(refusal_in(captured("srun"), with(6, 3)), "accepted");
  EXPECT_EQ(refusal_in(captured("salloc_srun_one"), with(4, 2, "h0:1")), "accepted");
  EXPECT_EQ(refusal_in(captured("sbatch"), with(4, 2, "h0:1")), "accepted");
}

TEST(JobEnvironment, RanksOfOurLauncherIgnoreWhatStartedIt) {
  Settings settings = with(4, 2, "127.0.0.1:1");
  settings.report_fd = 4;
  const JoinPlan plan = plan_in(captured("srun"), settings);
  EXPECT_EQ(plan.settings.rank, 2);
  EXPECT_FALSE(plan.alone);
  EXPECT_THAT(plan.ways, IsEmpty());
}

// Variables that `anello run` sets for a rank if it was itself started in a task of another launcher.
Environment started_by_us(const std::string& launcher_in) {
  return captured(launcher_in, {{"ANELLO_REPORT_FD", "4"},
                                {"ANELLO_RANK", "2"},
                                {"ANELLO_SIZE", "4"},
                                {"RANK", "2"},
                                {"WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", "29500"}});
}

TEST(JobEnvironment, OurLauncherIsNamedAndNotTheOneThatStartedIt) {
  for (const char* file : {"srun", "openmpi", "mpich", "torchrun"}) {
    const std::vector<Placement> found = found_in(started_by_us(file));
    ASSERT_THAT(found, SizeIs(1)) << file;
    EXPECT_EQ(found[0].task() + ": " + found[0].evidence, "task 2 of 4 of anello run: ANELLO_RANK=2, ANELLO_SIZE=4");
  }
}

TEST(JobEnvironment, RanksOfOurLauncherMeetAlsoWithSettingsOfTheirOwn) {
  const JoinPlan plan = plan_in(started_by_us("openmpi"));
  EXPECT_EQ(plan.settings.rank, 2);
  EXPECT_EQ(describe(plan), "rank 2 of 4, which meets the others at MASTER_ADDR=127.0.0.1");
}

TEST(JobEnvironment, AServerByHandTakesItsRanksFromTheLauncher) {
  const JoinPlan plan = plan_in(captured("srun_cyclic"), with(-1, -1, "h0:1"));
  EXPECT_FALSE(plan.alone);
  EXPECT_EQ(plan.settings.rank, 4);
  EXPECT_EQ(plan.settings.size, 6);
  EXPECT_THAT(plan.ways, IsEmpty());
}

TEST(JobEnvironment, MpiAndRankMustAgree) {
  EXPECT_THAT(refusal_in(captured("openmpi", {{"RANK", "5"}, {"WORLD_SIZE", "8"}})),
              AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=1"), HasSubstr("RANK=5, WORLD_SIZE=8"), HasSubstr("unset")));
  const Environment both = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "h0"}, {"MASTER_PORT", "29500"}};
  EXPECT_THAT(plan_in(captured("openmpi", both)).ways, SizeIs(2));
}

TEST(JobEnvironment, ARankBeyondTheSizeIsRefusedAtOnce) {
  const Environment beyond = {{"RANK", "5"}, {"WORLD_SIZE", "5"}, {"MASTER_ADDR", "h0"}, {"MASTER_PORT", "29500"}};
  EXPECT_THAT(refusal_in(beyond), HasSubstr("RANK=5 must be less than WORLD_SIZE=5"));
}

// Otherwise all ranks would run alone.
TEST(JobEnvironment, RanksOfHorovodrunAreToldHowToStart) {
  const Environment of_two = {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}, {"HOROVOD_LOCAL_RANK", "1"}};
  EXPECT_THAT(refusal_in(of_two), AllOf(HasSubstr("task 1 of 2 of horovodrun (HOROVOD_RANK=1, HOROVOD_SIZE=2)"),
                                        HasSubstr("`anello run -np N -- COMMAND`")));
  EXPECT_EQ(refusal_in(of_two, with(2, 1, "h0:1")), "accepted");
  EXPECT_TRUE(plan_in({{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "1"}}).alone);
}

// Otherwise each task would run alone.
TEST(JobEnvironment, VariablesThatAShellHasKeptAreRefusedInAStepOfSeveral) {
  EXPECT_THAT(refusal_in(captured("srun", {{"RANK", "0"}, {"WORLD_SIZE", "1"}})),
              AllOf(HasSubstr("RANK=0, WORLD_SIZE=1, but this is task 3 of 6 of Slurm step 1.0"), HasSubstr("unset")));
  EXPECT_THAT(refusal_in(captured("srun", {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})), HasSubstr("task 3 of 6"));
  EXPECT_EQ(refusal_in(captured("srun", {{"RANK", "0"}, {"WORLD_SIZE", "1"}}), with(1)), "accepted");
  EXPECT_TRUE(plan_in(captured("salloc_srun_one", {{"RANK", "0"}, {"WORLD_SIZE", "1"}})).alone);
}

TEST(JobEnvironment, TorchrunInAStepIsNotTheStep) {
  Environment both = captured("srun");
  both.merge(captured("torchrun"));
  both["RANK"] = "7", both["WORLD_SIZE"] = "8";
  const JoinPlan plan = plan_in(both);
  EXPECT_EQ(plan.settings.rank, 7);
  EXPECT_EQ(plan.settings.size, 8);
  EXPECT_THAT(plan.ways, SizeIs(1));
}

TEST(JobEnvironment, RankAndWorldSizeMeetAtTheMaster) {
  const Environment given = {
      {"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  const Placement way = plan_in(given).ways.at(0);
  EXPECT_TRUE(way.serves);
  EXPECT_FALSE(way.one_host) << "other ranks may know this host by another name";
  EXPECT_EQ(way.port, 29500);
  Environment other = given;
  other["MASTER_ADDR"] = "h0", other["RANK"] = "1", other["LOCAL_WORLD_SIZE"] = "3";
  EXPECT_TRUE(plan_in(other).ways.at(0).one_host);
  EXPECT_EQ(plan_in(other).ways.at(0).job, way.job);
  EXPECT_EQ(found_in(captured("torchrun")).at(0).port, 0) << "the port belongs to torchrun";
  EXPECT_THAT(refusal_in({{"RANK", "1"}, {"WORLD_SIZE", "3"}}),
              AllOf(HasSubstr("task 1 of 3 of RANK and WORLD_SIZE"), HasSubstr("MASTER_ADDR and MASTER_PORT")));
}

TEST(JobEnvironment, TasksThatCannotMeetAreRefused) {
  EXPECT_THAT(refusal_in({{"JOB_COMPLETION_INDEX", "2"}}),
              AllOf(HasSubstr("task 2 of an indexed job of Kubernetes"), HasSubstr("MASTER_ADDR"),
                    HasSubstr("ANELLO_RENDEZVOUS"), HasSubstr("ANELLO_SIZE=1")));
  const Environment pod = {{"JOB_COMPLETION_INDEX", "2"}, {"MASTER_ADDR", "job-0.svc"}, {"MASTER_PORT", "29500"}};
  EXPECT_THAT(refusal_in(pod), HasSubstr("set ANELLO_SIZE"));
  EXPECT_EQ(plan_in(pod, with(4)).settings.rank, 2);
  EXPECT_THAT(refusal_in({{"LSF_PM_TASKID", "1"}}), HasSubstr("task 1 of an LSF job"));
  EXPECT_THAT(refusal_in({{"PBS_JOBID", "7"}, {"PBS_TASKNUM", "3"}}), HasSubstr("task 3 of a PBS job"));
  EXPECT_TRUE(plan_in({{"PBS_JOBID", "7"}, {"PBS_TASKNUM", "1"}}).alone);
  EXPECT_THAT(refusal_in(captured("srun", {{"SLURM_PROCID", "x"}})), HasSubstr("SLURM_PROCID='x'"));
}

TEST(JobEnvironment, StepsJobsAndRunsHaveDifferentNames) {
  const auto name = [](const Environment& changes) { return found_in(captured("srun", changes)).at(0).job; };
  EXPECT_EQ(name({}), "slurm-ring-1-0-0");
  EXPECT_EQ(name({{"SLURM_STEP_ID", "1"}}), "slurm-ring-1-0-1");
  EXPECT_EQ(name({{"SLURM_RESTART_COUNT", "1"}}), "slurm-ring-1-1-0");
  EXPECT_EQ(found_in(captured("sbatch_requeued")).at(0).job, "slurm-test-13-1-0");
  EXPECT_EQ(name({{"SLURM_CLUSTER_NAME", "other"}}), "slurm-other-1-0-0");
}

TEST(JobEnvironment, ALauncherInEachTaskIsRefused) {
  const auto refusal = [](const Environment& environment, const Settings& settings) -> std::string {
    try {
      require_one_copy("anello run", settings, found_in(environment));
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(captured("srun"), {}),
              AllOf(HasSubstr("task 3 of 6 of Slurm step 1.0"), HasSubstr("`anello run`")));
  EXPECT_EQ(refusal(captured("srun"), with(1)), "accepted");
  EXPECT_EQ(refusal(captured("salloc"), {}), "accepted");
  EXPECT_EQ(refusal(captured("salloc_srun_one"), {}), "accepted");
}

}  // namespace
}  // namespace anello::rendezvous
