#include "ring/net/hmac.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/in_child.hpp"
#include "tests/support/run_delay.hpp"

namespace anello::net {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes)
    for (const int half : {(c >> 4) & 15, c & 15}) out.push_back("0123456789abcdef"[half]);
  return out;
}

bool authenticates() {
  try {
    require_authentication("secret");
    return true;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("libssl-dev"));
    return false;
  }
}

bool is_refused() {
  try {
    hmac_sha256("secret", "message");
    return false;
  } catch (const Error& error) {
    return error.code() == ErrorCode::network;
  }
}

// RFC 4231, test cases 1, 2 and 6.
TEST(Hmac, FollowsItsStandard) {
  if (!authenticates()) GTEST_SKIP() << "built without OpenSSL";
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// Handlers run in the opposite order of their registration, so one that is registered before the first use of OpenSSL
// runs after OpenSSL has freed its locks. This handler ends the process, so that a leak check does not report memory of
// detached threads.
[[noreturn]] void exit_and_call() {
  std::atexit([] { _exit(is_refused() ? 7 : 1); });
  hmac_sha256("secret", "message");
  std::exit(0);
}

// The thread must not end while OpenSSL ends, because OpenSSL's destructor for threads uses a lock that may be freed.
// The library's own threads do not end at that time either.
void call_until_the_end() {
  while (!is_refused()) {
  }
  for (;;) ::pause();
}

[[noreturn]] void exit_while_threads_call() {
  std::atexit([] { _exit(0); });
  for (int i = 0; i < 4; i++) std::thread(call_until_the_end).detach();
  std::this_thread::sleep_for(milliseconds(20));
  std::exit(0);
}

constexpr int kReady = 0, kWaited = 3;

// How long the calling thread has had a core, or slept, since the process began to count.
std::chrono::nanoseconds undelayed() {
  static const auto begin = std::chrono::steady_clock::now();
  static const auto delay = own_run_delay();
  return (std::chrono::steady_clock::now() - begin) - (own_run_delay() - delay);
}

// A child of fork() does not have the threads that were in a call, and must not wait for them. Time in which a child
// has no core does not count as waiting. Some children may still be slow, because the machine stands still.
[[noreturn]] void exit_from_children_while_a_thread_calls() {
  std::atexit([] { _exit(undelayed() > milliseconds(900) ? kWaited : kReady); });
  std::thread(call_until_the_end).detach();
  int slow = 0;
  for (int run = 0; run < 10; run++) {
    const int result = in_child([]() -> int {
      undelayed();
      std::exit(0);
    });
    if (result != kReady && result != kWaited) _exit(1);
    slow += result == kWaited;
  }
  _exit(slow > 5 ? kWaited : 0);
}

// Each test runs in a new process, in which nothing has used OpenSSL before.
class HmacDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!authenticates()) GTEST_SKIP() << "built without OpenSSL";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(HmacDeathTest, IsRefusedOnceTheProcessExits) {
  EXPECT_EXIT(exit_and_call(), ::testing::ExitedWithCode(7), "");
}

TEST_F(HmacDeathTest, ThreadsInACallSurviveTheExit) {
  for (int run = 0; run < 20; run++) EXPECT_EXIT(exit_while_threads_call(), ::testing::ExitedWithCode(0), "");
}

TEST_F(HmacDeathTest, AChildDoesNotWaitForThreadsOfItsParent) {
  EXPECT_EXIT(exit_from_children_while_a_thread_calls(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace anello::net
