// Messages to standard error, also where nobody reads them.
#include "ring/base/log.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>

#include "ring/base/text.hpp"
#include "tests/support/full_pipe.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Log, writes_one_line_with_who_speaks_if_it_is_severe_enough) {
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

TEST(Log, severities_parse) {
  Severity parsed = Severity::debug;
  EXPECT_TRUE(parse("error", parsed));
  EXPECT_EQ(parsed, Severity::error);
  EXPECT_TRUE(parse("debug", parsed));
  EXPECT_EQ(parsed, Severity::debug);
  EXPECT_FALSE(parse("Error", parsed));
  EXPECT_FALSE(parse("", parsed));
}

TEST(Log, that_nobody_reads_blocks_nobody_and_comes_later_in_order) {
  FullPipe pipe;
  const std::string large(100'000, 'x');  // more than a pipe holds
  std::string expected;
  for (const std::string& message : {large, std::string("two"), std::string("three")}) {
    log(Severity::warning, message);
    expected += text("anello: warning: ", message, "\n");
  }
  EXPECT_EQ(pipe.read_until("three\n"), expected);
}

TEST(Log, says_how_many_messages_are_lost) {
  FullPipe pipe;
  for (int k = 0; k < 1500; k++) log(Severity::warning, text(k));
  const std::string end = "anello: warning: 500 messages are missing here: standard error was not read\n";
  const std::string all = pipe.read_until(end);
  EXPECT_TRUE(all.starts_with("anello: warning: 0\n")) << all.substr(0, 100);
  EXPECT_TRUE(all.ends_with("anello: warning: 999\n" + end)) << all.substr(all.size() - 200);
}

// Runs the body in a child process that then calls exit(); its exit code.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Also while a thread of the parent process is blocked in a write.
TEST(Log, of_a_child_process_comes_out_although_it_exits_at_once) {
  FullPipe pipe;
  log(Severity::warning, "parent");
  testing::internal::CaptureStderr();
  EXPECT_EQ(in_child([] { log(Severity::warning, "child"); }), 7);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "anello: warning: child\n");
  EXPECT_EQ(pipe.read_until("parent\n"), "anello: warning: parent\n");
}

TEST(Log, that_nobody_reads_does_not_keep_a_process_from_its_exit) {
  FullPipe pipe;
  EXPECT_EQ(in_child([] { log(Severity::warning, "oh"); }), 7);
}

}  // namespace
}  // namespace anello
