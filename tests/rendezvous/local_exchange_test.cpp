// Another user is a thread with another effective user id, which only root can make.
#include "rendezvous/join/local_exchange.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <future>
#include <thread>

#include "rendezvous/join/job_ports.hpp"
#include "rendezvous/protocol/interruption.hpp"
#include "ring/base/text.hpp"
#include "ring/shm/fd_message.hpp"
#include "tests/support/process.hpp"
#include "tests/support/undisturbed.hpp"

namespace anello::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kOtherUser = 5077;

class LocalExchange : public ::testing::Test {
 protected:
  std::string ask(std::chrono::milliseconds limit = testing::kLong) const {
    try {
      const Invitation received = receive_local_invitation(job_, limit);
      return text(received.secret, " at ", received.host, ":", received.port);
    } catch (const Error& error) {
      return text(name(error.code()), ": ", error.what());
    }
  }
  std::unique_ptr<LocalListener> listen(bool open = true) const {
    return std::make_unique<LocalListener>(job_, invitation_, [open] { return open; });
  }
  std::string refusal() const {
    try {
      (void)listen();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::configuration);
      return error.what();
    }
    return "accepted";
  }

  template <class Action>
  static void as_other_user(Action action) {
    std::thread([&] {
      if (syscall(SYS_setresuid, kOtherUser, kOtherUser, kOtherUser) == 0) action();
    }).join();
  }

  const std::string job_ =
      text("test-", getpid(), "-", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string socket_ = text("anello-", geteuid(), "-", job_hash(job_));
  const Invitation invitation_{job_, "a secret", 4711, ""};
};

TEST_F(LocalExchange, GivesTheSecretToProcessesOfThisUser) {
  EXPECT_THAT(ask(), HasSubstr("network: connecting"));
  const auto listener = listen();
  for (int i = 0; i < 3; i++) EXPECT_EQ(ask(), "a secret at 127.0.0.1:4711");
}

// poll() refuses more descriptors than the process may have.
TEST_F(LocalExchange, AnErrorThatLastsEndsTheWait) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Interruption looks([] { return false; });  // makes the wait call poll() again and again
  std::promise<void> asked;
  const LocalListener listener(job_, invitation_, [&] {
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    asked.get_future().wait();
    return false;
  });
  EXPECT_THAT(ask(), HasSubstr("network: waiting for the job's secret: Invalid argument"));
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  asked.set_value();
}

TEST_F(LocalExchange, IsClosedWhenAllHaveIt) {
  const auto listener = listen(false);
  EXPECT_EQ(ask(), "network: the connection was closed");
}

TEST_F(LocalExchange, AJobOfTheSameNameIsRefused) {
  {
    const auto listener = listen();
    EXPECT_THAT(refusal(), AllOf(HasSubstr("a job of the same name"), HasSubstr("two processes have rank 0"),
                                 HasSubstr("ANELLO_JOB")));
  }
  EXPECT_EQ(refusal(), "accepted") << "the name is gone with its listener";
}

TEST_F(LocalExchange, AMuteListenerIsATimeOut) {
  const Descriptor mute = shm::listen_as(socket_);
  EXPECT_EQ(ask(std::chrono::milliseconds(50)), "timed_out: no answer within 50 ms");
}

TEST_F(LocalExchange, AnotherUserGetsNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  const auto listener = listen();
  std::string by_name = "not tried";
  ssize_t received = -1;
  as_other_user([&] {
    by_name = ask();
    const Descriptor socket = shm::connect_to(socket_);
    char byte = 0;
    fcntl(socket.get(), F_SETFL, 0);  // blocking
    received = recv(socket.get(), &byte, 1, 0);
  });
  EXPECT_THAT(by_name, HasSubstr("network: connecting"));
  EXPECT_EQ(received, 0);
  EXPECT_EQ(ask(), "a secret at 127.0.0.1:4711");
}

TEST_F(LocalExchange, OtherUsersDoNotKeepRanksFromAsking) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  undisturbed(std::chrono::milliseconds(100), [&] {
    const auto listener = listen();
    std::vector<Descriptor> strangers;
    as_other_user([&] {
      for (int k = 0; k < 300; k++) strangers.push_back(shm::connect_to(socket_));
    });
    EXPECT_EQ(ask(std::chrono::milliseconds(1000)), "a secret at 127.0.0.1:4711");
  });
}

TEST(FindInvitation, WarnsOnceOfWhatItHasTried) {
  const auto none = [](std::chrono::milliseconds) -> Invitation { throw Error(ErrorCode::network, "nobody there"); };
  std::string tried;
  ::testing::internal::CaptureStderr();
  const auto found = find_invitation("j", InvitationSource{"a place", none},
                                     std::chrono::steady_clock::now() + std::chrono::milliseconds(300), tried,
                                     std::chrono::milliseconds(50));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(found);
  EXPECT_THAT(said, HasSubstr("has ended or is slow; tried a place (nobody there)"));
  EXPECT_EQ(said.find("waiting"), said.rfind("waiting"));
}

TEST_F(LocalExchange, ASocketOfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  Descriptor theirs;
  as_other_user([&] { theirs = shm::listen_as(socket_); });
  EXPECT_EQ(ask(), "unauthorized: a process of user 5077 is there, not one of user 0");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("a process of user 5077 is there"), HasSubstr("ANELLO_JOB")));
}

}  // namespace
}  // namespace anello::rendezvous
