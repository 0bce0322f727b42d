// Ranks as threads that meet through a process manager and a munged in memory, at ports of this host.
#include "rendezvous/meeting.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <deque>
#include <future>

#include "rendezvous/client.hpp"
#include "rendezvous/job_ports.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/auth.hpp"
#include "tests/rendezvous/fake_munge.hpp"
#include "tests/rendezvous/fake_space.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kMe = 1000, kOther = 2000;

// A job of ranks on this host, or as if on several.
struct TestJob {
  int size = 3;
  Placement way = {.launcher = "Slurm step 7.0", .size = 3, .way = Way::first_host, .host = "127.0.0.1"};
  std::set<int> on_one_host;  // ranks that have LOCAL_WORLD_SIZE
  Settings settings;
  FakeMunged munged;
  FakeManager manager{3};

  explicit TestJob(const std::string& name = "") {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    int number = 0;
    do way.job = text("test-", getpid(), "-", number++, "-", test->name(), name);
    while (!std::ranges::all_of(job_ports(way.job, ""), is_free));
    settings.start_timeout = std::chrono::milliseconds(60000);
  }

  JoinPlan plan(int rank) const {
    JoinPlan out{settings, false, {way}};
    out.ways[0].rank = out.settings.rank = rank;
    out.ways[0].serves = rank == 0;
    out.ways[0].one_host |= on_one_host.contains(rank);
    out.settings.size = size;
    return out;
  }

  MeetingHooks hooks(int rank, int user = kMe) {
    return {.open_space = [this, rank](Way, auto) { return std::make_unique<FakeSpace>(manager, rank); },
            .munge = [this, user] { return std::make_shared<FakeMunge>(munged, user); },
            .world_number = [] { return 1; }};
  }

  // "rank 1 of 3", or the error.
  std::string join(int rank) {
    try {
      Meeting meeting(plan(rank), hooks(rank));
      EXPECT_EQ(meeting.secret().empty(), net::make_secret().empty());
      RendezvousClient client(meeting.settings(), meeting.secret(), meeting.server());
      client.leave();
      meeting.wait_for_others();
      return text("rank ", client.identity().rank, " of ", client.identity().size);
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::vector<std::string> join_all() {
    std::vector<std::future<std::string>> ranks;
    for (int rank = size - 1; rank >= 0; rank--)
      ranks.push_back(std::async(std::launch::async, [this, rank] { return join(rank); }));
    std::vector<std::string> out;
    for (auto& rank : ranks) out.push_back(rank.get());
    return out;
  }
};

// Tests of ways to meet that need a secret.
class MeetingWithASecret : public ::testing::Test {
 protected:
  void SetUp() override {
    if (net::make_secret().empty()) GTEST_SKIP() << "built without OpenSSL";
  }
};

const auto kAllJoined = ::testing::ElementsAre("rank 2 of 3", "rank 1 of 3", "rank 0 of 3");

TEST(Meeting, ThroughAProcessManager) {
  TestJob job;
  job.way.way = Way::pmi;
  EXPECT_THAT(job.join_all(), kAllJoined);
}

TEST_F(MeetingWithASecret, ByMunge) {
  TestJob job;
  EXPECT_THAT(job.join_all(), kAllJoined);
}

TEST(Meeting, OnOneHostWithoutASecret) {
  TestJob job;
  job.way.way = Way::master;
  EXPECT_THAT(job.join_all(), kAllJoined);
  job.way = {.launcher = "Slurm step 7.1", .size = 3, .way = Way::first_host, .job = job.way.job, .one_host = true};
  EXPECT_THAT(job.join_all(), kAllJoined);
}

// LOCAL_WORLD_SIZE may be set for some ranks only.
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

// In a container, a host's name may mean nothing.
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

// The first is open to others; a build without OpenSSL can use neither.
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

// Rank 0 knows its host as localhost, the others by another name.
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

// Sends each connection what it is given, as a process that has a port of another job.
class Occupant {
 public:
  Occupant(std::uint16_t port, std::function<std::string()> answer) : acceptor_(context_, {asio::ip::tcp::v4(), port}) {
    thread_ = std::thread([this, answer = std::move(answer)] {
      for (;;) {
        asio::ip::tcp::socket socket(context_);
        asio::error_code failure;
        acceptor_.accept(socket, failure);
        if (failure || over_) return;
        asio::write(socket, asio::buffer(answer()), failure);
        count_++;
      }
    });
  }
  ~Occupant() {
    over_ = true;
    asio::ip::tcp::socket last(context_);
    asio::error_code ignored;
    last.connect({asio::ip::address_v4::loopback(), acceptor_.local_endpoint().port()}, ignored);
    thread_.join();
  }
  int count() const { return count_; }

 private:
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> over_ = false;
  std::atomic<int> count_ = 0;
  std::thread thread_;
};

TEST_F(MeetingWithASecret, PortsOfOtherProcessesArePassedOver) {
  TestJob job;
  const std::vector<std::uint16_t> ports = job_ports(job.way.job, "");
  const Invitation wrong{"another job", "its secret", 1, ""}, right{job.way.job, "a secret", 1, ""};
  Occupant noise(ports[0], [] { return std::string(5000, 'x'); });
  Occupant my_other_job(ports[1], [&] { return job.munged.encode(kMe, encode(wrong)); });
  Occupant another_user(ports[2], [&] { return job.munged.encode(kOther, encode(right)); });
  Occupant garbage(ports[3], [&] { return job.munged.encode(kMe, "garbage"); });
  EXPECT_THAT(job.join_all(), kAllJoined);
  EXPECT_GE(noise.count(), 2);
  EXPECT_GE(garbage.count(), 2);
}

// Takes connections and says nothing, as a server of another kind does.
class Mute {
 public:
  explicit Mute(std::uint16_t port) : acceptor_(context_, {asio::ip::tcp::v4(), port}) {}

 private:
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_;
};

// Five seconds for each of them would be too long.
TEST_F(MeetingWithASecret, MutePortsTakeLittleTime) {
  for (const Way way : {Way::first_host, Way::master}) {
    const Scratch scratch;
    TestJob job(way == Way::master ? "-master" : "-munge");
    job.way.way = way;
    job.settings.start_timeout = std::chrono::milliseconds(15000);
    if (way == Way::master) job.settings.secret_file = scratch.put_privately("secret", "a secret");
    const std::vector<std::uint16_t> ports = job_ports(job.way.job, "");
    std::deque<Mute> mute;
    for (int i = 0; i < (way == Way::master ? 2 : 4); i++) mute.emplace_back(ports[std::size_t(i)]);
    EXPECT_THAT(job.join_all(), kAllJoined);
  }
}

TEST(Meeting, MungeIsNotAskedWithoutEnd) {
  TestJob job;
  const std::uint16_t port = job_ports(job.way.job, "")[0];
  const Invitation invitation{job.way.job, "a secret", 1, ""};
  const auto munge = std::make_shared<FakeMunge>(job.munged, kMe);
  const CredentialListener listener({"127.0.0.1", port}, munge, invitation, {[] { return true; }, 2});
  std::string outcomes;
  const std::vector<asio::ip::tcp::endpoint> here = {{asio::ip::address_v4::loopback(), 0}};
  for (int i = 0; i < 4; i++) try {
      outcomes += receive_invitation(here, port, *munge, testing::kLong).secret + "; ";
    } catch (const Error& error) {
      outcomes += error.message() + "; ";
    }
  EXPECT_EQ(outcomes, "a secret; a secret; the connection was closed; the connection was closed; ");
}

TEST_F(MeetingWithASecret, AnotherUserGetsNothing) {
  undisturbed(milliseconds(20), [&] {
    TestJob job;
    JoinPlan plan = job.plan(0);
    const Meeting first(plan, job.hooks(0));
    plan = job.plan(1);
    plan.settings.start_timeout = std::chrono::milliseconds(200);
    try {
      const Meeting other(plan, job.hooks(1, kOther));
      ADD_FAILURE() << "another user joined";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("no rendezvous of Slurm step 7.0 within 0.2 s"),
                                      HasSubstr("Unauthorized credential")));
    }
  });
}

int look_ups = 0;

std::vector<asio::ip::tcp::endpoint> found_at_the_third(const std::string&, std::uint16_t port,
                                                        asio::error_code& failure) {
  if (++look_ups == 3) return {{asio::ip::address_v4::loopback(), port}};
  failure = asio::error::host_not_found;
  return {};
}

TEST(Meeting, LooksAHostUpOnceForAllItsPorts) {
  TestJob job;
  FakeMunge munge(job.munged, kMe);
  CredentialSources sources("h0", {1, 2, 3}, munge, found_at_the_third);
  for (int round = 0; round < 2; round++) {
    const std::vector<InvitationSource> unknown = sources();
    ASSERT_EQ(unknown.size(), 1u);
    EXPECT_EQ(unknown[0].name, "to resolve 'h0'");
    EXPECT_THROW(unknown[0].ask(testing::kLong), Error);
  }
  for (int round = 0; round < 2; round++) {
    const std::vector<InvitationSource> known = sources();
    ASSERT_EQ(known.size(), 3u);
    EXPECT_EQ(known[2].name, "h0:3");
    for (const InvitationSource& source : known) EXPECT_THROW(source.ask(testing::kLong), Error);
  }
  EXPECT_EQ(look_ups, 3);
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

void expect_second_job_refused(const std::string& secret_file) {
  TestJob job;
  job.way.way = Way::master;
  job.settings.secret_file = secret_file;
  const Meeting first(job.plan(0), job.hooks(0));
  EXPECT_THAT(
      refusal_of(job.plan(0), job.hooks(0)),
      AllOf(HasSubstr("a job of the same name"), HasSubstr("two processes have rank 0"), HasSubstr("ANELLO_JOB")));
  job.settings.job = "other";
  EXPECT_EQ(refusal_of(job.plan(0), job.hooks(0)), "accepted");
}

TEST(Meeting, ASecondJobOfTheSameNameIsRefusedOnOneHost) {
  expect_second_job_refused("");
}

TEST_F(MeetingWithASecret, ASecondJobOfTheSameNameIsRefusedAtAMaster) {
  const Scratch scratch;
  expect_second_job_refused(scratch.put_privately("secret", "a secret").string());
}

// Containers that share a host's network and user, and have the same MASTER_PORT.
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
