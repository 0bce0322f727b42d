#include "rendezvous/join/munge.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

namespace anello::rendezvous {
namespace {

using ::testing::HasSubstr;

TEST(Munge, FindsTheSocketOfSlurmsConfiguration) {
  EXPECT_EQ(socket_of_auth_info("ClusterName=x\n AuthInfo=ttl=30,socket=/run/Munge-2.socket # ours\n"),
            "/run/Munge-2.socket");
  EXPECT_EQ(socket_of_auth_info("#AuthInfo=socket=/no\nauthinfo=Socket=/yes,ttl=3"), "/yes");
  EXPECT_EQ(socket_of_auth_info("AuthInfo=ttl=30\n"), "");
  EXPECT_EQ(socket_of_auth_info(""), "");
  const Scratch scratch;
  const std::string conf = scratch.put("slurm.conf", "AuthInfo=socket=/a\n");
  const auto with = [&](const std::string& given) {
    return [=](const char* name) -> std::optional<std::string> {
      if (name == std::string("SLURM_CONF")) return conf;
      return given.empty() ? std::nullopt : std::optional(given);
    };
  };
  EXPECT_EQ(munge_socket(with("")), "/a");
  EXPECT_EQ(munge_socket(with("/b")), "/b");
}

// Uses the real munge: Debian's package munge.
TEST(Munge, DecodesOnceAndSaysWhyNot) {
  const Scratch scratch;
  const std::string folder = scratch.path(), socket = folder + "/socket";
  scratch.put("key", std::string(1024, 'k'));
  std::filesystem::permissions(folder + "/key", std::filesystem::perms::owner_read);
  EXPECT_THROW(open_munge(socket), Error);
  const testing::Process munged({"/usr/sbin/munged", "--foreground", "--force", "--key-file=" + folder + "/key",
                                 "--socket=" + socket, "--pid-file=" + folder + "/pid", "--log-file=" + folder + "/log",
                                 "--seed-file=" + folder + "/seed"});
  std::shared_ptr<Munge> munge;
  for (const auto deadline = std::chrono::steady_clock::now() + testing::kLong;
       !munge && std::chrono::steady_clock::now() < deadline;)
    try {
      munge = open_munge(socket);
    } catch (const Error&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  ASSERT_TRUE(munge) << "munged does not answer: " << munged.err();
  const std::string content("a secret\0and more", 17);
  const std::string credential = munge->encode(content);
  EXPECT_TRUE(credential.starts_with("MUNGE:") && credential.size() < Munge::kMaxCredentialBytes);
  EXPECT_EQ(munge->decode(credential), content);
  const auto refusal = [&](const std::string& wrong) -> std::string {
    try {
      return munge->decode(wrong);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unauthorized);
      return error.what();
    }
  };
  EXPECT_THAT(refusal(credential), HasSubstr("Replayed credential"));
  EXPECT_THAT(refusal("MUNGE:abc:"), HasSubstr("munge: "));
  EXPECT_THAT(refusal("x"), HasSubstr("munge: "));
}

}  // namespace
}  // namespace anello::rendezvous
