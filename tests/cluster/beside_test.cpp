// Jobs at the same time and one after another on the same hosts: their ranks never mix, and ports that are in use do
// not stop them.
#include <gmock/gmock.h>

#include "rendezvous/join/job_ports.hpp"
#include "ring/base/text.hpp"
#include "tests/cluster/hosts.hpp"

namespace anello::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(Beside, JobsOnTheSameHostsDoNotMix) {
  const auto one = start(0, "srun -N 3 -n 6 " + kTrain + " --seed 1"),
             two = start(1, "srun -N 3 -n 6 " + kTrain + " --seed 2"),
             three = start(2, "bash " + recipe("mpiexec.sh") + " --epochs 2 --seed 3");
  const testing::Outcome ends[] = {end_of(*one), end_of(*two), end_of(*three)};
  for (int k = 0; k < 3; k++) expect_trained(ends[k], text("--seed ", k + 1));
}

TEST(Beside, APortThatIsTakenIsNotUsed) {
  const auto job = start(0, "salloc -Q -N 3 -n 6 bash -c 'echo \"job $SLURM_JOB_ID.\"; read -r; srun " + kTrain + "'");
  ASSERT_TRUE(job->says("."));
  const std::string id = job->out().substr(4, job->out().find('.') - 4);
  const Descriptor taken = occupy(0, rendezvous::job_ports(text("slurm-test-", id, "-0-0"), "").front(), true);
  job->type("\n");
  expect_trained(end_of(*job));
}

TEST(Beside, AMasterPortThatIsTakenIsNotUsed) {
  ASSERT_EQ(on(0, "anello secret").code, 0);
  const Descriptor taken = occupy(0, 29500, false);
  expect_trained(on(1, "bash " + recipe("ssh.sh") + " --epochs 2"));
}

// Some ranks of a job of six. They have met on h0 and wait for the remaining ranks.
class Waiting {
 public:
  explicit Waiting(const std::vector<int>& ranks) {
    for (const int rank : ranks) add(rank);
    for (const int rank : ranks) EXPECT_TRUE(server_->says_error(text("rank ", rank, " ("))) << server_->err();
  }
  testing::Process& add(int rank) {
    ranks_.push_back(start(rank / 2, text("ANELLO_LOG=info RANK=", rank,
                                          " WORLD_SIZE=6 MASTER_ADDR=h0 "
                                          "MASTER_PORT=29500 ",
                                          kTrain)));
    if (rank == 0 && !server_) server_ = ranks_.back().get();
    return *ranks_.back();
  }
  testing::Process& server() { return *server_; }
  const std::vector<std::unique_ptr<testing::Process>>& all() const { return ranks_; }

 private:
  std::vector<std::unique_ptr<testing::Process>> ranks_;
  testing::Process* server_ = nullptr;
};

// Two jobs with the same name start at the same time. All ranks of both get the error. Otherwise ranks of the second
// job would take the places of the first job's ranks.
TEST(Beside, ASecondJobOfTheSameNameEndsBothStarts) {
  ASSERT_EQ(on(0, "anello secret").code, 0);
  Waiting job({0, 1, 2, 3, 4});
  job.add(0);
  expect_result(on(1, "MASTER_PORT=29501 bash " + recipe("ssh.sh") + " --epochs 2"));
  for (const auto& rank : job.all()) {
    EXPECT_EQ(rank->wait(), 1) << rank->out();
    EXPECT_THAT(rank->err(),
                AllOf(ContainsRegex("rank 0 is claimed twice: by h0 .pid [0-9]+, started by process [0-9]+, "
                                    "address [0-9.]+. and by h0 .pid [0-9]+, "),
                      HasSubstr("give each job its own ANELLO_JOB, MASTER_PORT or server")));
  }
}

// The server cannot distinguish a rank of an earlier job from the job's own rank, so neither rank may take part.
TEST(Beside, ARankOfAJobBeforeOfTheSameNameIsNamed) {
  ASSERT_EQ(on(0, "anello secret").code, 0);
  Waiting job({3, 0, 1, 2, 4});
  job.add(3);
  for (const auto& rank : job.all()) {
    EXPECT_EQ(rank->wait(), 1) << rank->out();
    EXPECT_THAT(rank->err(),
                ContainsRegex(
                    "rank 3 is claimed twice: by h1 .pid [0-9]+, started by process [0-9]+, address [0-9.]+. and by h1 "
                    ".pid [0-9]+, "));
  }
}

}  // namespace
}  // namespace anello::cluster
