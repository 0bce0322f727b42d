#include "ring/base/thread.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace anello {
namespace {

TEST(QuietThread, BlocksTheSignalsThatOthersSend) {
  sigset_t blocked;
  sigemptyset(&blocked);
  quiet_thread("a test", [&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); }).join();
  for (const int sent : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD, SIGALRM, SIGPIPE, SIGABRT})
    EXPECT_TRUE(sigismember(&blocked, sent)) << sent;
  for (const int caused : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    EXPECT_FALSE(sigismember(&blocked, caused));
}

[[noreturn]] void abort_in_a_thread() {
  signal(SIGABRT, [](int) { _exit(7); });
  quiet_thread("a test", [] { std::abort(); }).join();
  _exit(1);
}

// If a thread causes a signal that it blocks, the kernel ends the process, and no handler runs.
[[noreturn]] void crash_in_a_thread() {
  signal(SIGILL, [](int) { _exit(7); });
  quiet_thread("a test", [] { __builtin_trap(); }).join();
  _exit(1);
}

TEST(QuietThreadDeathTest, ItsCrashReachesTheHandler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(crash_in_a_thread(), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(abort_in_a_thread(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace anello
