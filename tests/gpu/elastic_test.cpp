// Elastic jobs whose ranks have fake GPUs: each world has communicators of its own, and leaves none behind.
#include "tests/rendezvous/elastic_jobs.hpp"

namespace anello {
namespace {

using ::testing::AllOf;
using ::testing::Not;

constexpr const char* kNoneLeft = "left: 0 communicators, 0 other objects\n";

int count(const std::string& out, std::string_view part) {
  int found = 0;
  for (std::size_t at = out.find(part); at != std::string::npos; at = out.find(part, at + 1)) found++;
  return found;
}

class ElasticGpus : public ElasticJob, public ::testing::WithParamInterface<const char*> {
 protected:
  ElasticGpus() {
    trainee_ = GPU_TRAINEE;
    setenv("ANELLO_GPU_BACKEND", GetParam(), 1);
  }
  ~ElasticGpus() override {
    for (const char* name : {"ANELLO_GPU_BACKEND", "TRAINEE_VICTIM", "TRAINEE_FATE", "TRAINEE_ABORTS"}) unsetenv(name);
  }
  static void let_one_be(const char* rank, const char* fate) {
    setenv("TRAINEE_VICTIM", rank, 1);
    setenv("TRAINEE_FATE", fate, 1);
  }
  testing::Process& rank(int number) {
    for (auto& process : processes_)
      if (process->says(text("world 1: rank ", number, " of "), milliseconds(1))) return *process;
    throw std::logic_error(text("there is no rank ", number));
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, ElasticGpus, ::testing::Values("nccl", "staged"),
                         [](const auto& its) { return std::string(its.param); });

// When a rank dies in a collective, the kernels of the other ranks wait for it.
TEST_P(ElasticGpus, GoOnWhenARankDiesInACollective) {
  serve({.min = 1, .max = 4, .first = 3});
  let_one_be("1", "dies");
  start_all(3, 200, 2);
  testing::Process& victim = rank(1);
  EXPECT_EQ(victim.wait(), 137);
  for (auto& process : processes_) {
    if (process.get() == &victim) continue;
    expect_result(*process, 200);
    EXPECT_THAT(process->out(), HasSubstr("world 2: "));
    EXPECT_EQ(count(process->out(), text(": ", GetParam(), "\n")), 2) << process->out();
    EXPECT_EQ(count(process->out(), kNoneLeft), 2) << process->out();
  }
}

TEST_P(ElasticGpus, KeepTheirNumbers) {
  serve({.min = 1, .max = 4, .first = 3});
  start_all(3, kLongTraining, 2);
  testing::Process* const others[] = {&rank(1), &rank(2)};
  kill(rank(0));
  for (const int k : {0, 1})
    EXPECT_TRUE(others[k]->says(text("world 2 on GPU ", k + 1, ": ", GetParam())))
        << others[k]->out() << others[k]->err();
}

// One rank's GPU breaks: from then on every call of CUDA on this rank fails.
TEST_P(ElasticGpus, GoOnWithoutARankWhoseGpuBreaks) {
  serve({.min = 1, .max = 4, .first = 3});
  let_one_be("2", "breaks");
  start_all(3, 200, 2);
  testing::Process& victim = rank(2);
  EXPECT_EQ(victim.wait(), 1);
  const bool found_by_the_watcher = std::string(GetParam()) == "nccl";
  EXPECT_THAT(victim.err(), HasSubstr(found_by_the_watcher ? "GPU 2: trying it out (this process must be" : "GPU 2"));
  for (auto& process : processes_) {
    if (process.get() == &victim) continue;
    expect_result(*process, 200);
    EXPECT_THAT(process->out(), HasSubstr(" of 2 at "));
  }
}

TEST_P(ElasticGpus, LeaveNothingBehindInManyWorlds) {
  constexpr int kWorlds = 8;
  serve({.min = 1, .max = 4, .first = 2});
  start_all(2, kLongTraining, kWorlds);
  for (int world = 2; world <= kWorlds; world += 2) {
    testing::Process& guest = start(kLongTraining, kWorlds);
    ASSERT_TRUE(guest.says(text("world ", world, " on GPU ")));
    if (world < kWorlds) kill(guest);
    for (const int k : {0, 1})
      ASSERT_TRUE(processes_[std::size_t(k)]->says(text("world ", std::min(world + 1, kWorlds), " on GPU ")));
  }
  for (const int k : {0, 1})
    EXPECT_EQ(count(processes_[std::size_t(k)]->out(), kNoneLeft), kWorlds - 1) << processes_[std::size_t(k)]->out();
}

class ElasticNccl : public ElasticGpus {};
INSTANTIATE_TEST_SUITE_P(Backends, ElasticNccl, ::testing::Values("nccl"),
                         [](const auto& its) { return std::string(its.param); });

// An abort of NCCL does not return. The other ranks must not wait for this abort in each further world.
TEST_P(ElasticNccl, GoOnWhileAbortsDoNotReturn) {
  serve({.min = 1, .max = 4, .first = 2});
  setenv("TRAINEE_ABORTS", "3600000", 1);
  let_one_be("1", "dies");
  start_all(2, 200, 2);
  EXPECT_EQ(rank(1).wait(), 137);
  testing::Process& other = rank(0);
  expect_result(other, 200);
  EXPECT_THAT(other.out(), AllOf(HasSubstr("left: 1 communicators"), HasSubstr("world 2: rank 0 of 1")));
  EXPECT_THAT(other.err(), HasSubstr("NCCL on GPU 0 does not end, a thread is left"));
}

}  // namespace
}  // namespace anello
