#include "ring/services/on_signal.hpp"

#include <signal.h>

#include <anello/error.hpp>
#include <map>
#include <utility>

#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"

namespace anello::services {
namespace {

// By signal: the number of objects of this process that wait for the signal. While the number is not 0, the event loop
// handles the signal.
Mutex mutex;
std::map<int, int> waiting ANELLO_GUARDED_BY(mutex);

bool has_handler(int number) {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  return now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
}

}  // namespace

int signal_number(std::string_view name) {
  if (name == "USR1") return SIGUSR1;
  if (name == "USR2") return SIGUSR2;
  throw Error(ErrorCode::configuration, text("ANELLO_FLIGHT_SIGNAL must be none, USR1 or USR2, not '", name, "'"));
}

OnSignal::OnSignal(asio::io_context& context, std::string_view name, std::function<void()> call)
    : number_(signal_number(name)), call_(std::move(call)), signals_(context) {
  const MutexLock lock(mutex);
  if (waiting[number_] == 0 && has_handler(number_))
    throw Error(ErrorCode::configuration,
                text("ANELLO_FLIGHT_SIGNAL=", name, ": the program already handles this signal; choose the other one"));
  signals_.add(number_);
  waiting[number_]++;
  wait();
}

OnSignal::~OnSignal() {
  const MutexLock lock(mutex);
  asio::error_code ignored;
  signals_.clear(ignored);
  waiting[number_]--;
}

void OnSignal::wait() {
  signals_.async_wait([this](const asio::error_code& error, int) {
    if (error) return;
    call_();
    wait();
  });
}

}  // namespace anello::services
