#include "ring/services/on_signal.hpp"

#include <gmock/gmock.h>
#include <signal.h>

#include <anello/error.hpp>
#include <future>

#include "ring/net/event_loop.hpp"

namespace anello::services {
namespace {

using testing::HasSubstr;

std::string refusal_of_signal(std::string_view name) {
  net::EventLoop background;
  try {
    const OnSignal waits(background.context(), name, [] {});
    background.stop();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::configuration);
    return e.what();
  }
  return "none";
}

TEST(OnSignal, CallsForEveryWorldThatWaits) {
  net::EventLoop first, second;
  std::promise<void> one, other;
  {
    const OnSignal a(first.context(), "USR2", [&] { one.set_value(); });
    const OnSignal b(second.context(), "USR2", [&] { other.set_value(); });
    raise(SIGUSR2);
    EXPECT_EQ(one.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_EQ(other.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    first.stop();
    second.stop();
  }
  EXPECT_EQ(refusal_of_signal("USR2"), "none") << "the next world may wait for it too";
}

TEST(OnSignal, LeavesAProgramSOwnHandlerAlone) {
  signal(SIGUSR1, [](int) {});
  EXPECT_THAT(refusal_of_signal("USR1"),
              HasSubstr("ANELLO_FLIGHT_SIGNAL=USR1: the program already handles this signal"));
  signal(SIGUSR1, SIG_DFL);
  EXPECT_EQ(refusal_of_signal("USR1"), "none");
  signal(SIGUSR1, [](int) {});
  EXPECT_NE(refusal_of_signal("USR1"), "none") << "also after a world that waited for it";
  signal(SIGUSR1, SIG_DFL);
}

TEST(OnSignal, AnUnknownNameIsRefused) {
  EXPECT_THAT(refusal_of_signal("KILL"), HasSubstr("ANELLO_FLIGHT_SIGNAL must be none, USR1 or USR2, not 'KILL'"));
}

}  // namespace
}  // namespace anello::services
