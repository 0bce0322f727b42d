// The tool that lets one call fail, a thread that cannot start, and event loops with a failing call.
// `anello-failing-calls` lets calls fail in a job of three ranks.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <cerrno>
#include <future>
#include <system_error>
#include <vector>

#include "ring/base/thread.hpp"
#include "ring/net/event_loop.hpp"
#include "tests/faults/failing_calls.hpp"
#include "tests/support/process.hpp"

namespace anello::faults {
namespace {

TEST(ArmedCall, FailsOnceAndNoOther) {
  arm({"pipe", 2, EMFILE});
  std::vector<int> results;
  for (int k = 0; k < 3; k++) {
    int ends[2];
    results.push_back(pipe(ends));
    if (results.back() == 0) close(ends[0]), close(ends[1]);
  }
  disarm();
  EXPECT_THAT(results, ::testing::ElementsAre(0, -1, 0));
}

TEST(QuietThread, LeavesTheCallersSignalsAsTheyWereIfNoThreadCanStart) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  arm({"pthread_create", 1, EAGAIN});
  EXPECT_THAT([] { quiet_thread("a test", [] {}); },
              ::testing::ThrowsMessage<Error>(
                  "no thread for a test: Resource temporarily unavailable; is `ulimit -u` reached?"));
  disarm();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

TEST(ArmedCall, FailsAsOftenAsItIsTold) {
  arm({"pipe", 1, EMFILE, 2});
  int ends[2];
  EXPECT_EQ(pipe(ends), -1);
  EXPECT_EQ(pipe(ends), -1);
  EXPECT_EQ(pipe(ends), 0);
  disarm();
  close(ends[0]), close(ends[1]);
}

// True if the loop has completed this future in time.
bool is_done(std::future<void> done) {
  return done.wait_for(testing::kLong) == std::future_status::ready;
}

class LoopWithAFailure : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, LoopWithAFailure, ::testing::Range(1, 5));  // calls of epoll_ctl

TEST_P(LoopWithAFailure, ServesTimersAndOtherThreads) {
  std::promise<void> expired;
  arm({"epoll_ctl", std::uint64_t(GetParam()), ENOSPC});
  net::EventLoop loop;
  asio::steady_timer timer(loop.context());
  disarm();
  timer.expires_after(std::chrono::milliseconds(1));
  timer.async_wait([&](asio::error_code) { expired.set_value(); });
  ASSERT_TRUE(is_done(expired.get_future())) << "the timer does not expire";
  for (int time = 0; time < 20; time++) {  // the loop sleeps each time, or is about to sleep
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::promise<void> done;
    asio::post(loop.context(), [&] { done.set_value(); });
    ASSERT_TRUE(is_done(done.get_future())) << "the loop sleeps on";
  }
}

TEST(Loop, ThatCannotWaitIsAnErrorWithTheCause) {
  arm({"epoll_ctl", 1, ENOSPC, 100});
  std::string why;
  try {
    const net::EventLoop loop;
  } catch (const Error& error) {
    why = error.what();
  }
  disarm();
  EXPECT_THAT(why, ::testing::HasSubstr("cannot wait for sockets and timers: No space left on device; the limit of "
                                        "this user's processes is in /proc/sys/fs/epoll/max_user_watches"));
}

}  // namespace
}  // namespace anello::faults
