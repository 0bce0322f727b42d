// Tests messages to standard error, also if nothing reads them.
#include "ring/base/log.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "ring/base/text.hpp"
#include "tests/support/full_pipe.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;

TEST(Log, WritesOneLineWithWhoSpeaksIfItIsSevereEnough) {
  set_log(Severity::info, "rank 3");
  testing::internal::CaptureStderr();
  log(Severity::info, "hello");
  log(Severity::debug, "not this");
  log(Severity::error, "oh");
  flush_log(milliseconds(20000));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "anello: rank 3: info: hello\nanello: rank 3: error: oh\n");
  EXPECT_FALSE(log_enabled(Severity::debug));
  set_log(Severity::warning, "");
  EXPECT_FALSE(log_enabled(Severity::info));
}

TEST(Log, LinesMayBeginWithATime) {
  set_log(Severity::warning, "", [] { return std::string("12:00 "); });
  testing::internal::CaptureStderr();
  log(Severity::warning, "late");
  flush_log(milliseconds(20000));
  set_log(Severity::warning, "");
  log(Severity::warning, "later");
  flush_log(milliseconds(20000));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "12:00 anello: warning: late\nanello: warning: later\n");
}

TEST(Log, SeveritiesParse) {
  Severity parsed = Severity::debug;
  EXPECT_TRUE(parse("error", parsed));
  EXPECT_EQ(parsed, Severity::error);
  EXPECT_TRUE(parse("debug", parsed));
  EXPECT_EQ(parsed, Severity::debug);
  EXPECT_FALSE(parse("Error", parsed));
  EXPECT_FALSE(parse("", parsed));
}

TEST(Log, ThatNobodyReadsBlocksNobodyAndComesLaterInOrder) {
  FullPipe pipe;
  const std::string large(100'000, 'x');  // more than a pipe holds
  std::string expected;
  for (const std::string& message : {large, std::string("two"), std::string("three")}) {
    log(Severity::warning, message);
    expected += text("anello: warning: ", message, "\n");
  }
  EXPECT_EQ(pipe.read_until("three\n"), expected);
}

TEST(Log, SaysHowManyMessagesAreLost) {
  flush_log(milliseconds(20000));  // a line of an earlier test may still count as waiting although it is written
  FullPipe pipe;
  for (int k = 0; k < 1500; k++) log(Severity::warning, text(k));
  const std::string end = "anello: warning: 500 messages are missing here: standard error was not read\n";
  const std::string all = pipe.read_until(end);
  EXPECT_TRUE(all.starts_with("anello: warning: 0\n")) << all.substr(0, 100);
  EXPECT_TRUE(all.ends_with("anello: warning: 999\n" + end)) << all.substr(all.size() - 200);
}

// The test also forks while a thread of the parent process is blocked in a write.
TEST(Log, OfAChildProcessComesOutAtOnce) {
  FullPipe pipe;
  log(Severity::warning, "parent");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    log(Severity::warning, "child");
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  close(ends[1]);
  std::string said(100, '\0');
  said.resize(std::size_t(std::max<ssize_t>(0, read(ends[0], said.data(), said.size()))));
  close(ends[0]);
  EXPECT_EQ(said, "anello: warning: child\n");
  EXPECT_EQ(pipe.read_until("parent\n"), "anello: warning: parent\n");
}

TEST(LogDeathTest, NobodyReadsItAndTheProcessExits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, not only a child of fork()
  const auto log_and_exit = [] {
    FullPipe pipe;
    log(Severity::warning, "oh");
    std::exit(7);
  };
  EXPECT_EXIT(log_and_exit(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace anello
