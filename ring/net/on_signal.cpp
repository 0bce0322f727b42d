#include "ring/net/on_signal.hpp"

#include <signal.h>

#include <anello/error.hpp>
#include <array>
#include <atomic>
#include <utility>

#include "ring/base/text.hpp"

namespace anello {
namespace {

int number_of(std::string_view name) {
  if (name == "USR1") return SIGUSR1;
  if (name == "USR2") return SIGUSR2;
  throw Error(Code::configuration, text("ANELLO_FLIGHT_SIGNAL='", name, "' is none of none, USR1, USR2"));
}

// The event loop's handler stays once it was installed: it may also be that of another world of this process.
void check_free(int number, std::string_view name) {
  static std::array<std::atomic<bool>, 2> ours{};
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  if (ours[number == SIGUSR2].exchange(true) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
  ours[number == SIGUSR2] = false;
  throw Error(Code::configuration,
              text("ANELLO_FLIGHT_SIGNAL=", name, ": the program has a handler of its own for it; take another"));
}

}  // namespace

OnSignal::OnSignal(asio::io_context& context, std::string_view name, std::function<void()> call)
    : call_(std::move(call)), signals_(context) {
  const int number = number_of(name);
  check_free(number, name);
  signals_.add(number);
  wait();
}

void OnSignal::wait() {
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    call_();
    wait();
  });
}

}  // namespace anello
