// Reports about one rank: counters, the flight recorder's file, the page for Prometheus. Any thread.
#pragma once
#include <anello/diagnosis.hpp>
#include <anello/settings.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "ring/base/identity.hpp"
#include "ring/failure/control_message.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/trace/flight_recorders.hpp"
#include "ring/trace/rejected_connections.hpp"

namespace anello::services {
class Metrics;
class OnSignal;
}  // namespace anello::services

namespace anello::world {

class Diagnosis {
 public:
  // Services that use the event loop. Destroy this object after the loop's thread has ended, but before the loop.
  struct Services {
    Services();
    Services(Services&&) noexcept;
    Services& operator=(Services&&) noexcept;
    ~Services();
    std::unique_ptr<services::Metrics> metrics;
    std::unique_ptr<services::OnSignal> on_signal;
  };

  Diagnosis(const Identity& identity, const Settings& settings) : identity_(identity), settings_(settings) {}

  trace::FlightRecorders& recorders() { return recorders_; }
  trace::RejectedConnections& rejected_connections() { return rejected_; }
  Counters counters() const;

  // Throws Error{file}.
  void write_flight(const std::string& path, std::string_view why) const;
  // Call when the world has failed. Reports the failure to the launcher, and writes the flight recorder's file to
  // ANELLO_FLIGHT_DIR, unless the program or a rank's exit ended the world. Waits for the file for at most 1 s. Logs
  // the errors of this function.
  void failed(const failure::Verdict& why);

  // True if serve() would start a service.
  static bool serves(const Settings& settings) { return !settings.metrics.empty() || settings.flight_signal != "none"; }
  // Starts the services of the settings ANELLO_METRICS and ANELLO_FLIGHT_SIGNAL. If a port is in use, logs a warning.
  // Throws Error{configuration}.
  Services serve(net::EventLoop& background);

 private:
  std::string metrics() const;
  std::string flight(std::string_view why) const;
  void write_flight_file(std::string_view why) const;

  const Identity& identity_;
  const Settings& settings_;
  trace::FlightRecorders recorders_;
  trace::RejectedConnections rejected_;
  trace::TickClock clock_;
  std::atomic<bool> failed_ = false;
};

}  // namespace anello::world
