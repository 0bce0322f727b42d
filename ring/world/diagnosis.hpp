// What one rank knows about what it did, and how that gets out: counters, the flight recorder's file, the page for
// Prometheus. Any thread.
#pragma once
#include <anello/diagnosis.hpp>
#include <anello/settings.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "ring/base/identity.hpp"
#include "ring/net/event_loop.hpp"
#include "ring/trace/flight_recorders.hpp"
#include "ring/trace/rejected_connections.hpp"

namespace anello {

class Metrics;
class OnSignal;

class Diagnosis {
 public:
  // What is registered with the event loop; goes after its thread and before itself.
  struct Services {
    Services();
    Services(Services&&) noexcept;
    Services& operator=(Services&&) noexcept;
    ~Services();
    std::unique_ptr<Metrics> metrics;
    std::unique_ptr<OnSignal> on_signal;
  };

  Diagnosis(const Identity& identity, const Settings& settings) : identity_(identity), settings_(settings) {}

  FlightRecorders& recorders() { return recorders_; }
  RejectedConnections& rejected_connections() { return rejected_; }
  Counters counters() const;

  // Throws Error{file}.
  void write_flight(const std::string& path, std::string_view why) const;
  // The world has failed: writes it where the settings say. Errors are logged.
  void failed(std::string_view why);

  // Does anything have to be served?
  static bool serves(const Settings& settings) { return !settings.metrics.empty() || settings.flight_signal != "none"; }
  // As the settings say. Throws Error{configuration, network}.
  Services serve(EventLoop& background);

 private:
  std::string page() const;
  void write_where_it_belongs(std::string_view why) const;

  const Identity& identity_;
  const Settings& settings_;
  FlightRecorders recorders_;
  RejectedConnections rejected_;
  TickClock clock_;
  std::atomic<bool> failed_ = false;
};

}  // namespace anello
