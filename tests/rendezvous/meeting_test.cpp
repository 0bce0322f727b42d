// Ranks that meet without a server of their own: through a process manager, on one host, or at a master.
#include "rendezvous/join/meeting.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include "rendezvous/join/job_ports.hpp"
#include "ring/net/addresses.hpp"
#include "tests/rendezvous/meetings.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(Meeting, ThroughAProcessManager) {
  TestJob job;
  job.way.way = Way::pmi;
  EXPECT_THAT(job.join_all(), kAllJoined);
}

// The ranks start two worlds in different orders. The fences of the process manager have no names, so the ranks meet at
// the same fence.
TEST(Meeting, ThroughAProcessManagerWithDifferentJobsIsAnErrorOnAllRanks) {
  TestJob job;
  job.way.way = Way::pmi;
  job.job_of[0] = job.job_of[2] = "first world";
  job.job_of[1] = "second world";
  EXPECT_THAT(
      job.join_all(),
      Each(AllOf(HasSubstr("rank 1 starts a world of job 'second world', but rank 0 starts one of job 'first_world'"),
                 HasSubstr("in the same order"))));
}

TEST(Meeting, OnOneHostWithoutASecret) {
  TestJob job;
  job.way.way = Way::master;
  EXPECT_THAT(job.join_all(), kAllJoined);
  job.way = {.launcher = "Slurm step 7.1",
             .size = 3,
             .way = Way::first_host,
             .job = job.way.job,
             .place = job.way.place,
             .one_host = true};
  EXPECT_THAT(job.join_all(), kAllJoined);
}

// Only ranks with LOCAL_WORLD_SIZE see that all ranks are on the master's host, and only some ranks may have this
// variable.
TEST_F(MeetingWithASecret, AtAMasterOfWhichOnlySomeRanksKnowThatItIsTheirHost) {
  const Scratch scratch;
  for (const std::set<int>& told : {std::set{0}, std::set{1}, std::set{0, 2}, std::set{1, 2}}) {
    TestJob job(text("-", *told.begin(), "-", told.size()));
    job.way.way = Way::master;
    job.way.exported = true;
    job.on_one_host = told;
    job.settings.secret_file = scratch.put_privately("secret", "a secret");
    EXPECT_THAT(job.join_all(), kAllJoined);
  }
}

// A host's name may have no address, for example in a container.
TEST_F(MeetingWithASecret, OnOneHostWhoseNameDoesNotResolve) {
  const Scratch scratch;
  TestJob job;
  job.way.way = Way::master;
  job.way.host = "no.such.host.invalid";
  job.way.exported = true;
  job.on_one_host = {0, 1, 2};
  job.settings.secret_file = scratch.put_privately("secret", "a secret");
  EXPECT_THAT(job.join_all(), kAllJoined);
}

// Each rank and each other connection needs a descriptor of the process that runs the server.
TEST(Meeting, TheServersProcessMayOpenAsManyFilesAsTheSystemAllows) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{256, before.rlim_max};
  if (few.rlim_max <= few.rlim_cur) GTEST_SKIP() << "the system allows only " << few.rlim_max;
  setrlimit(RLIMIT_NOFILE, &few);
  const auto limit = [] {
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    return now.rlim_cur;
  };
  TestJob job;
  job.way.one_host = true;
  {
    const Meeting first(job.plan(0), job.hooks(0));
    EXPECT_EQ(limit(), few.rlim_max);
    const Meeting other(job.plan(1), job.hooks(1));
  }
  EXPECT_EQ(limit(), few.rlim_cur);
  setrlimit(RLIMIT_NOFILE, &before);
}

// The first secret cannot be used because others can read its file. A build without OpenSSL can use neither of the
// secrets.
TEST(Meeting, OnOneHostWithASecretThatCannotBeUsed) {
  const Scratch scratch;
  const auto open_to_others = scratch.put("open", "a secret");
  std::filesystem::permissions(open_to_others, std::filesystem::perms(0644));
  for (const auto& file : {open_to_others, scratch.put_privately("private", "a secret")}) {
    TestJob job(file.filename());
    job.way.way = Way::master;
    job.way.exported = true;
    job.on_one_host = {0, 1, 2};
    job.settings.secret_file = file;
    EXPECT_THAT(job.join_all(), kAllJoined);
  }
}

// Rank 0 calls its host localhost, and the other ranks use another name.
TEST_F(MeetingWithASecret, AtAMasterWithTwoNames) {
  const std::vector<std::string> addresses = net::addresses_for_other_hosts("10.0.0.1", net::local_interfaces());
  if (addresses.empty()) GTEST_SKIP() << "this host has only loopback";
  const Scratch scratch;
  TestJob on_localhost, on_name;
  for (TestJob* job : {&on_localhost, &on_name}) {
    job->way.way = Way::master;
    job->settings.secret_file = scratch.put_privately("secret", "a secret");
  }
  on_localhost.way.host = "localhost";
  on_name.way.host = addresses[0];
  auto first = std::async(std::launch::async, [&] { return on_localhost.join(0); });
  auto second = std::async(std::launch::async, [&] { return on_name.join(1); });
  EXPECT_EQ(on_name.join(2), "rank 2 of 3");
  EXPECT_EQ(second.get(), "rank 1 of 3");
  EXPECT_EQ(first.get(), "rank 0 of 3");
}

std::string refusal_of(const JoinPlan& plan, const MeetingHooks& hooks) {
  try {
    const Meeting meeting(plan, hooks);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Meeting, SeveralHostsNeedASecret) {
  TestJob job;
  job.way.host = "10.0.0.1";
  MeetingHooks hooks = job.hooks(1);
  hooks.munge = []() -> std::shared_ptr<Munge> { throw Error(ErrorCode::unsupported, "munge: no socket"); };
  EXPECT_THAT(refusal_of(job.plan(1), hooks),
              AllOf(HasSubstr("this is task 1 of 3 of Slurm step 7.0"), HasSubstr("munge: no socket"),
                    HasSubstr("`anello secret`"), HasSubstr("ANELLO_RENDEZVOUS"), HasSubstr("ANELLO_SIZE=1")));
  job.way.way = Way::master;
  EXPECT_THAT(refusal_of(job.plan(0), hooks), HasSubstr("`anello secret`"));
  job.way.way = Way::pmix;
  hooks.open_space = [](Way, auto) { return nullptr; };
  EXPECT_THAT(refusal_of(job.plan(0), hooks), HasSubstr("no connection with it is open"));
}

TEST(Meeting, WithoutOpenSslSeveralHostsAreRefusedWithTheReason) {
  if (!net::make_secret().empty()) GTEST_SKIP() << "this build has OpenSSL";
  TestJob job;
  job.way.host = "10.0.0.1";
  for (const Way way : {Way::pmi, Way::first_host}) {
    job.way.way = way;
    EXPECT_THAT(refusal_of(job.plan(1), job.hooks(1)), HasSubstr("this build has no authentication; install OpenSSL"));
  }
}

// Starts ranks of torchrun whose restart counts differ. The server mentions rejected ranks when other ranks are late.
void expect_other_run_named(const std::string& secret_file) {
  TestJob job;
  job.way.way = Way::master;
  job.way.one_host = secret_file.empty();
  job.settings.secret_file = secret_file;
  job.settings.start_timeout = milliseconds(600);
  const Meeting first(job.plan(0), job.hooks(0));
  JoinPlan plan = job.plan(1);
  plan.ways[0].job = job.way.place + "-restarted";
  plan.settings.start_timeout = milliseconds(300);
  const auto join = [](const Meeting& meeting, const Settings& settings) -> std::string {
    try {
      const RendezvousClient client(settings, meeting.secret(), meeting.server());
      return "joined";
    } catch (const Error& error) {
      return error.what();
    }
  };
  try {
    const Meeting second(plan, job.hooks(1));
    EXPECT_THAT(join(second, second.settings()), HasSubstr("this is not job '" + plan.ways[0].job + "'"));
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("it belongs to job '" + job.way.place + "', but this rank belongs to '" + plan.ways[0].job));
  }
  EXPECT_THAT(join(first, first.settings()),
              AllOf(HasSubstr("missing ranks 1, 2"), HasSubstr("this is not job '" + plan.ways[0].job + "'")));
}

TEST(Meeting, ARankOfAnotherRunIsNamedOnOneHost) {
  undisturbed(milliseconds(20), [] { expect_other_run_named(""); });
}

TEST_F(MeetingWithASecret, ARankOfAnotherRunIsNamedAtAMaster) {
  const Scratch scratch;
  const std::string secret_file = scratch.put_privately("secret", "a secret").string();
  undisturbed(milliseconds(20), [&] { expect_other_run_named(secret_file); });
}

// The second job's rank 0 joins the server of the first job, which informs both jobs.
void expect_second_job_found(const std::string& secret_file) {
  TestJob job;
  job.way.way = Way::master;
  job.settings.secret_file = secret_file;
  const Meeting first(job.plan(0), job.hooks(0));
  EXPECT_TRUE(first.runs_server());
  const Meeting second(job.plan(0), job.hooks(0));
  EXPECT_FALSE(second.runs_server());
  job.settings.job = "other";
  const Meeting another(job.plan(0), job.hooks(0));
  EXPECT_TRUE(another.runs_server());
}

TEST(Meeting, ASecondJobOfTheSameNameIsFoundOnOneHost) {
  expect_second_job_found("");
}

TEST_F(MeetingWithASecret, ASecondJobOfTheSameNameIsFoundAtAMaster) {
  const Scratch scratch;
  expect_second_job_found(scratch.put_privately("secret", "a secret").string());
}

// Two jobs run in containers that share a host's network and user, and have the same MASTER_PORT.
TEST_F(MeetingWithASecret, AJobOfTheSameNameAndAnotherSecretTakesTheNextPort) {
  const Scratch scratch;
  TestJob one, other;
  for (TestJob* job : {&one, &other}) {
    job->way.way = Way::master;
    job->way.exported = true;
  }
  one.settings.secret_file = scratch.put_privately("one", "a secret");
  other.settings.secret_file = scratch.put_privately("other", "another secret");
  const Meeting first(one.plan(0), one.hooks(0));
  EXPECT_THAT(other.join_all(), kAllJoined);
}

TEST(Meeting, PortsFollowFromTheNameAndStayInTheRange) {
  const auto ports = job_ports("slurm-ring-7-0-0", "");
  EXPECT_EQ(ports, job_ports("slurm-ring-7-0-0", ""));
  EXPECT_NE(ports, job_ports("slurm-ring-7-0-1", ""));
  EXPECT_EQ(std::set<std::uint16_t>(ports.begin(), ports.end()).size(), 8u);
  EXPECT_THAT(ports, Each(AllOf(::testing::Ge(20000), ::testing::Le(29999))));
  const auto few = job_ports("any", "65533-65535");
  EXPECT_THAT(few, ::testing::UnorderedElementsAre(65533, 65534, 65535));
}

}  // namespace
}  // namespace anello::rendezvous
