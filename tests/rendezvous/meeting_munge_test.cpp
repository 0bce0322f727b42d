// Ranks that meet by munge, while other programs use the job's ports.
#include <gmock/gmock.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <deque>
#include <future>

#include "rendezvous/join/credential_exchange.hpp"
#include "tests/rendezvous/meetings.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(MeetingWithASecret, ByMunge) {
  TestJob job;
  EXPECT_THAT(job.join_all(), kAllJoined);
}

// Sends the given bytes to each connection, like a process of another job that uses the port.
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

// Accepts connections and sends nothing, like a server of another kind.
class Mute {
 public:
  explicit Mute(std::uint16_t port) : acceptor_(context_, {asio::ip::tcp::v4(), port}) {}

 private:
  asio::io_context context_;
  asio::ip::tcp::acceptor acceptor_;
};

// If a rank waited five seconds at each mute port, its start would take too long.
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

// Sends `request` to this port and returns the answer.
std::string answer_to(std::uint16_t port, const std::string& request) {
  asio::io_context context;
  asio::ip::tcp::socket socket(context);
  socket.connect({asio::ip::address_v4::loopback(), port});
  asio::error_code ended;
  asio::write(socket, asio::buffer(request), ended);
  socket.shutdown(asio::ip::tcp::socket::shutdown_send, ended);
  std::string answer(Munge::kMaxCredentialBytes, '\0');
  answer.resize(asio::read(socket, asio::buffer(answer), ended));
  return answer;
}

TEST_F(MeetingWithASecret, StrangersNeitherReceiveACredentialNorUseAnythingUp) {
  TestJob job;
  const std::uint16_t port = job_ports(job.way.job, "")[0];
  const Meeting first(job.plan(0), job.hooks(0));
  const auto credentials = job.munged.made_by(kMe);
  const std::string right = "anello request 1", refusal = "anello refusal 1";
  asio::io_context context;
  std::deque<asio::ip::tcp::socket> silent;
  for (int i = 0; i < 50; i++) {
    silent.emplace_back(context).connect({asio::ip::address_v4::loopback(), port});
    EXPECT_EQ(answer_to(port, ""), "");
    EXPECT_EQ(answer_to(port, std::string(Munge::kMaxCredentialBytes - 1, 'x')), "");
    EXPECT_EQ(answer_to(port, "MUNGE:x:"), refusal);
    EXPECT_EQ(answer_to(port, job.munged.encode(kOther, right)), refusal);
  }
  EXPECT_EQ(job.munged.made_by(kMe), credentials);
  EXPECT_EQ(answer_to(port, job.munged.encode(kMe, right + "0")), refusal) << "another program of this user";
  const std::string request = job.munged.encode(kMe, right);
  EXPECT_THAT(answer_to(port, request), ::testing::StartsWith("MUNGE:"));
  EXPECT_EQ(answer_to(port, request), refusal) << "somebody else sends it again";
  EXPECT_EQ(Meeting(job.plan(1), job.hooks(1)).secret(), first.secret());
}

// Two jobs may have the same ports.
TEST_F(MeetingWithASecret, TheErrorOfARankOfAnotherJobNamesBoth) {
  undisturbed(milliseconds(20), [] {
    TestJob job;
    const Meeting first(job.plan(0), job.hooks(0));
    JoinPlan plan = job.plan(1);
    plan.ways[0].job = "stale";
    plan.settings.start_timeout = milliseconds(300);
    try {
      const Meeting other(plan, job.hooks(1));
      ADD_FAILURE() << "a rank of another job found the server";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("it belongs to job '" + job.way.job + "', but this rank belongs to 'stale'"));
    }
  });
}

TEST_F(MeetingWithASecret, SilentStrangersMakeRoomForRanks) {
  undisturbed(milliseconds(1000), [] {
    TestJob job;
    FakeMunge munge(job.munged, kMe);
    const std::uint16_t port = job_ports(job.way.job, "")[0];
    const CredentialListener listener(
        {"127.0.0.1", port}, std::make_shared<FakeMunge>(job.munged, kMe), {job.way.job, "a secret", 1, ""},
        [] { return true; }, 4);
    asio::io_context context;
    std::deque<asio::ip::tcp::socket> silent;
    for (int i = 0; i < 5; i++) silent.emplace_back(context).connect({asio::ip::address_v4::loopback(), port});
    char byte = 0;
    asio::error_code ended;
    EXPECT_EQ(asio::read(silent.front(), asio::buffer(&byte, 1), ended), 0u) << "the oldest is closed";
    std::string tried;
    const auto found = find_invitation(job.way.job, {{"127.0.0.1", port}}, munge,
                                       std::chrono::steady_clock::now() + testing::kLong, tried);
    ASSERT_TRUE(found) << tried;
    EXPECT_EQ(found->secret, "a secret");
    EXPECT_EQ(found->host, "127.0.0.1");
    silent.back().non_blocking(true);
    silent.back().read_some(asio::buffer(&byte, 1), ended);
    EXPECT_EQ(ended, asio::error::would_block) << "the newest is closed too, by the time";
  });
}

// A silent process has the first port. The right process starts at another port while the rank waits for the silent
// one.
TEST_F(MeetingWithASecret, AMutePortDoesNotDelayTheOthers) {
  undisturbed(milliseconds(100), [] {
    TestJob job;
    const auto ports = job_ports(job.way.job, "");
    asio::io_context context;
    asio::ip::tcp::acceptor mute(context, {asio::ip::tcp::v4(), ports[0]});
    auto asking = std::async(std::launch::async, [&] {
      FakeMunge munge(job.munged, kMe);
      std::string tried;
      return find_invitation(job.way.job, {{"127.0.0.1", ports[0]}, {"127.0.0.1", ports[1]}}, munge,
                             std::chrono::steady_clock::now() + testing::kLong, tried);
    });
    mute.accept();
    asio::ip::tcp::socket waited_for = mute.accept();  // for a second
    const CredentialListener listener({"127.0.0.1", ports[1]}, std::make_shared<FakeMunge>(job.munged, kMe),
                                      {job.way.job, "a secret", 1, ""}, [] { return true; });
    const auto since = std::chrono::steady_clock::now();
    EXPECT_TRUE(asking.get());
    EXPECT_LT(std::chrono::steady_clock::now() - since, milliseconds(900)) << "the mute port was waited for";
  });
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
                                      HasSubstr("munge credential: another user made it")));
    }
  });
}

}  // namespace
}  // namespace anello::rendezvous
