// The environment that ranks find when they start.
#include <sys/wait.h>
#include <unistd.h>

#include <anello/error.hpp>

#include <bit>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "rendezvous/launch/job/binding.hpp"
#include "ring/base/cores.hpp"
#include "ring/base/text.hpp"
#include "ring/net/hmac.hpp"
#include "tests/launch/launched.hpp"

namespace anello::launch {
namespace {

std::set<std::string> variables(const std::string& out, const std::string& label) {
  std::set<std::string> found;
  for (const std::string& line : testing::lines(out))
    if (line.starts_with(label)) found.insert(line.substr(label.size()));
  return found;
}

TEST(Environment, SaysWhoARankIs) {
  const Outcome outcome =
      testing::run(ranks(3, "env"),
                   {.environment = {"ANELLO_RANK=77", "ANELLO_SIZE=99", "ANELLO_SECRET_FILE=/nowhere", "ANELLO_TTY=80",
                                    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NCCL_LAUNCH_ORDER_IMPLICIT"}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (int rank = 0; rank < 3; rank++) {
    const auto found = variables(outcome.out, "[" + std::to_string(rank) + "] ");
    const std::string number = std::to_string(rank);
    for (const std::string& wanted :
         {"ANELLO_RANK=" + number, "ANELLO_LOCAL_RANK=" + number, std::string("ANELLO_SIZE=3"),
          std::string("ANELLO_LOCAL_SIZE=3"), std::string("OMP_NUM_THREADS=1"), std::string("OPENBLAS_NUM_THREADS=1"),
          std::string("NCCL_LAUNCH_ORDER_IMPLICIT=1")})
      EXPECT_TRUE(found.contains(wanted)) << wanted;
    int count = 0;
    for (const std::string& variable : found) count += variable.starts_with("ANELLO_");
    EXPECT_EQ(count, 8) << "rank, size, local rank and size, rendezvous, job, secret, report: " << outcome.out;
    EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                            [](const auto& one) { return one.starts_with("ANELLO_RENDEZVOUS=127.0.0.1:"); }));
  }
}

TEST(Environment, HasTheVariablesOfTorchrunAndHorovodrun) {
  const Outcome outcome = testing::run(ranks(2, "env"), {.environment = {"RANK=7", "HOROVOD_SIZE=9"}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const std::string rank : {"0", "1"}) {
    const auto found = variables(outcome.out, "[" + rank + "] ");
    for (const std::string& wanted :
         {"RANK=" + rank, "LOCAL_RANK=" + rank, std::string("WORLD_SIZE=2"), std::string("LOCAL_WORLD_SIZE=2"),
          "HOROVOD_RANK=" + rank, "HOROVOD_LOCAL_RANK=" + rank, std::string("HOROVOD_SIZE=2"),
          std::string("HOROVOD_LOCAL_SIZE=2"), std::string("MASTER_ADDR=127.0.0.1")})
      EXPECT_TRUE(found.contains(wanted)) << wanted;
    EXPECT_TRUE(std::ranges::any_of(found, [](const auto& one) { return one.starts_with("MASTER_PORT=2"); }));
    EXPECT_FALSE(found.contains("RANK=7") || found.contains("HOROVOD_SIZE=9")) << "the launcher's own";
  }
}

TEST(Environment, IsNotThatOfAJobInWhichTheLauncherRuns) {
  const std::string inner = text(ANELLO_PROGRAM, " run -n 1 ");
  const std::string fixed = inner + "-- sh -c 'echo ${HOROVOD_ELASTIC-none} $RANK'; exit 2";
  const std::string elastic = inner + "--min-np 1 -- sh -c 'echo ${RANK-none} ${WORLD_SIZE-none}; exit 2'";
  EXPECT_EQ(testing::run(ranks(1, fixed, {"--min-np", "1"})).out, "[0] [0] none 0\n");
  EXPECT_EQ(testing::run(ranks(1, elastic)).out, "[0] [0] none none\n");
}

TEST(Environment, LeavesNcclsOrderToTheUser) {
  EXPECT_EQ(
      testing::run(ranks(1, "echo $NCCL_LAUNCH_ORDER_IMPLICIT"), {.environment = {"NCCL_LAUNCH_ORDER_IMPLICIT=0"}}).out,
      "[0] 0\n");
}

TEST(Environment, TheUsersThreadsAreTheUsers) {
  const std::string script = "echo $OMP_NUM_THREADS/$OPENBLAS_NUM_THREADS";
  EXPECT_EQ(testing::run(ranks(1, script), {.environment = {"OMP_NUM_THREADS=3", "OPENBLAS_NUM_THREADS"}}).out,
            "[0] 3/\n")
      << "OpenBLAS follows OMP_NUM_THREADS";
  EXPECT_EQ(testing::run(ranks(1, script), {.environment = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS=2"}}).out,
            "[0] 1/2\n");
  EXPECT_EQ(testing::run(
                ranks(1, "echo ${OMP_NUM_THREADS-unset}/${CUDA_VISIBLE_DEVICES-unset}", {"-x", "CUDA_VISIBLE_DEVICES"}),
                {.environment = {"OMP_NUM_THREADS=", "CUDA_VISIBLE_DEVICES="}})
                .out,
            "[0] /\n")
      << "what is set to nothing is set";
}

TEST(Environment, TensorFlowsThreadsAreARanksShareOfTheCores) {
  const std::string script = "echo ${TF_NUM_INTEROP_THREADS-unset}/${TF_NUM_INTRAOP_THREADS-unset}";
  const Words unset = {"TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"};
  const int cores = int(available_cores().count());
  for (const int count : {1, 2, cores + 1}) {
    const std::string share = std::to_string(std::max(1, cores / count));
    EXPECT_THAT(testing::run(ranks(count, script), {.environment = unset}).out,
                HasSubstr("[0] " + share + "/" + share + "\n"))
        << count << " ranks";
  }
  EXPECT_EQ(
      testing::run(ranks(1, script), {.environment = {"TF_NUM_INTEROP_THREADS=5", "TF_NUM_INTRAOP_THREADS="}}).out,
      "[0] 5/\n");
  EXPECT_EQ(testing::run(ranks(1, script, {"--bind"}), {.environment = unset}).out, "[0] unset/unset\n")
      << "TensorFlow sees the cores to which it is bound";
  EXPECT_THAT(testing::run(ranks(1, "true", {"--dry-run"}), {.environment = unset}).out,
              HasSubstr("TF_NUM_INTEROP_THREADS=" + std::to_string(std::max(1, cores))));
}

TEST(Environment, EveryRunIsAnotherJob) {
  const Words words = ranks(1, "echo $ANELLO_JOB");
  EXPECT_NE(testing::run(words).out, testing::run(words).out);
}

TEST(Environment, TheSecretIsInADescriptorAndNowhereElse) {
  try {
    net::require_authentication("any");
  } catch (const Error&) {
    GTEST_SKIP() << "this build has no authentication, so that ranks get no secret";
  }
  Process job(ranks(2, "cat <&$ANELLO_SECRET_FD; echo; echo ready; sleep 300"));
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready"));
  const std::vector<std::string> lines = testing::lines(job.out());
  std::set<std::string> secrets;
  for (const std::string& line : lines)
    if (!contains(line, "ready")) secrets.insert(line.substr(4));
  ASSERT_EQ(secrets.size(), 1u) << job.out();
  const std::string secret = *secrets.begin();
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_GE(job.marked().size(), 4u) << "launcher, keeper, ranks";
  for (const auto& entry : std::filesystem::directory_iterator("/proc"))
    for (const char* file : {"cmdline", "environ"}) {
      std::ifstream stream(entry.path() / file);
      const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
      EXPECT_FALSE(contains(bytes, secret)) << entry.path() << "/" << file;
    }
}

TEST(Environment, RanksInheritNoOtherDescriptors) {
  const std::string descriptors =
      testing::run({"sh", "-c", "exec 7</dev/null; " ANELLO_PROGRAM " run -n 2 -- sh -c 'ls /proc/$$/fd; true'"}).out;
  for (const std::string& line : testing::lines(descriptors)) EXPECT_LE(std::stoi(line.substr(4)), 4) << descriptors;
}

// A connection that got the descriptor of standard output would receive the program's output.
TEST(Environment, AProgramWithoutStandardDescriptorsHasNoConnectionInTheirPlace) {
  Process job(ranks(2, "exec <&- >&-; exec " WAITER), {.environment = {"ANELLO_LOG=info"}});
  ASSERT_TRUE(job.says_error("rank 0 of 2 is pid ")) << "it has joined the world";
  std::size_t found = 0;
  for (const pid_t pid : job.marked()) {
    const std::filesystem::path descriptors = text("/proc/", pid, "/fd");
    if (std::filesystem::read_symlink(text("/proc/", pid, "/exe")) != WAITER) continue;
    found++;
    for (const char* number : {"0", "1"}) EXPECT_EQ(std::filesystem::read_symlink(descriptors / number), "/dev/null");
  }
  EXPECT_EQ(found, 2u);
}

TEST(Environment, SignalsAndLimitsAreAsTheUserHasThem) {
  const std::string script = "grep -E 'SigBlk|SigIgn' /proc/self/status; ulimit -n";
  const Outcome direct = testing::run({"sh", "-c", "ulimit -Sn 300; " + script});
  const Outcome launched = testing::run({"sh", "-c",
                                         "ulimit -Sn 300; " ANELLO_PROGRAM " run -n 1 -- sh -c '" +
                                             std::string("grep -E \"SigBlk|SigIgn\" /proc/self/status; ulimit -n'")});
  std::string expected;
  for (const std::string& line : testing::lines(direct.out)) expected += "[0] " + line + "\n";
  EXPECT_EQ(launched.out, expected);
}

// The cores that each of the ranks may use, as bits.
std::vector<unsigned long long> cores_of_bound_ranks(int count) {
  std::map<std::string, unsigned long long> by_rank;
  for (const std::string& line :
       testing::lines(testing::run(ranks(count, "grep Cpus_allowed: /proc/self/status", {"--bind"})).out))
    by_rank[line.substr(0, line.find(']'))] = std::stoull(line.substr(line.find_last_of("\t,") + 1), nullptr, 16);
  std::vector<unsigned long long> all;
  for (const auto& [rank, cores] : by_rank) all.push_back(cores);
  return all;
}

TEST(Environment, BoundRanksShareNoCore) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "this machine has one core";
  const std::vector<unsigned long long> cores = cores_of_bound_ranks(2);
  ASSERT_EQ(cores.size(), 2u);
  EXPECT_EQ(cores[0] & cores[1], 0u);
}

TEST(Environment, NeighboursThatAreBoundShareACoreIfThereAreTooFew) {
  const int count = int(std::thread::hardware_concurrency());
  if (count > 4) GTEST_SKIP() << "this machine has " << count << " cores, so that ranks have more than one digit";
  const std::vector<unsigned long long> cores = cores_of_bound_ranks(2 * count);
  ASSERT_EQ(int(cores.size()), 2 * count);
  for (int rank = 0; rank < 2 * count; rank++) {
    EXPECT_TRUE(std::has_single_bit(cores[std::size_t(rank)])) << "rank " << rank;
    const bool shares = rank > 0 && cores[std::size_t(rank)] == cores[std::size_t(rank) - 1];
    EXPECT_EQ(shares, rank % 2 == 1) << "rank " << rank;
  }
}

TEST(Environment, TheFirstRanksOfAnElasticJobShareNoCore) {
  const int count = int(std::thread::hardware_concurrency());
  if (count < 2) GTEST_SKIP() << "this machine has one core";
  const cpu_set_t first = cores_of(0, 4 * count, true), second = cores_of(1, 4 * count, true);
  cpu_set_t both;
  CPU_AND(&both, &first, &second);
  EXPECT_EQ(CPU_COUNT(&first), 1);
  EXPECT_EQ(CPU_COUNT(&second), 1);
  EXPECT_EQ(CPU_COUNT(&both), 0);
}

TEST(Environment, SixtyFourRanks) {
  const Outcome outcome = testing::run(ranks(64, "echo $ANELLO_RANK of $ANELLO_SIZE"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::set<std::string> lines;
  for (const std::string& line : testing::lines(outcome.out)) lines.insert(line);
  for (int rank = 0; rank < 64; rank++) {
    const std::string number = std::to_string(rank);
    EXPECT_TRUE(lines.contains("[" + number + "] " + number + " of 64")) << number;
  }
  EXPECT_EQ(lines.size(), 64u);
}

}  // namespace
}  // namespace anello::launch
