// Calls a function on the background thread whenever the process receives a signal. Several objects of one process may
// wait for the same signal.
#pragma once
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <functional>
#include <string_view>

namespace anello::services {

// `name`: "USR1" or "USR2". Throws Error{configuration} that names ANELLO_FLIGHT_SIGNAL.
int signal_number(std::string_view name);

class OnSignal {
 public:
  // Throws like signal_number(). Also throws if the program has its own handler for the signal.
  OnSignal(asio::io_context& context, std::string_view name, std::function<void()> call);
  ~OnSignal();
  OnSignal(const OnSignal&) = delete;
  OnSignal& operator=(const OnSignal&) = delete;

 private:
  void wait();

  int number_;
  std::function<void()> call_;
  asio::signal_set signals_;
};

}  // namespace anello::services
