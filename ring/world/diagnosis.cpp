#include "ring/world/diagnosis.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "ring/base/blocking_work.hpp"
#include "ring/base/file.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wall_clock.hpp"
#include "ring/services/http_page.hpp"
#include "ring/services/on_signal.hpp"
#include "ring/trace/flight_file.hpp"
#include "ring/trace/prometheus.hpp"
#include "ring/world/flight_files.hpp"
#include "ring/world/last_word.hpp"

namespace anello::world {
namespace {

// The background thread does not write flight files itself, because a file system may hang for longer than the silence
// limit.
constexpr std::chrono::milliseconds kFileLimit{1000};
BlockingWork& file_writer() {
  static auto* work = [] {
    std::atexit([] { file_writer().wait(kFileLimit); });
    return new BlockingWork;
  }();
  return *work;
}

}  // namespace

Diagnosis::Services::Services() = default;
Diagnosis::Services::Services(Services&&) noexcept = default;
Diagnosis::Services& Diagnosis::Services::operator=(Services&&) noexcept = default;
Diagnosis::Services::~Services() = default;

Counters Diagnosis::counters() const {
  const trace::Totals totals = recorders_.totals();
  const trace::TickClock::Scale scale = clock_.scale();
  const auto time = [&](trace::Ticks ticks) { return std::chrono::nanoseconds(scale.nanoseconds(ticks)); };
  Counters counters{.sent_bytes = totals.sent_bytes,
                    .received_bytes = totals.received_bytes,
                    .waits = totals.sleeps,
                    .stalls = totals.stalls,
                    .rejected_connections = rejected_.total(),
                    .waited = time(totals.slept)};
  for (const trace::Totals::OfKind& kind : totals.kinds) {
    counters.operations += kind.operations;
    counters.tensor_bytes += kind.bytes;
    counters.busy += time(kind.busy);
  }
  return counters;
}

std::string Diagnosis::metrics() const {
  return prometheus_text(recorders_.totals(), rejected_.counts(), clock_.scale(),
                         {identity_.job, identity_.host, identity_.rank, failed_.load()});
}

std::string Diagnosis::flight(std::string_view why) const {
  const trace::FlightHead head{.job = identity_.job,
                               .host = identity_.host,
                               .why = why,
                               .generation = identity_.generation,
                               .incarnation = identity_.incarnation,
                               .rank = identity_.rank,
                               .size = identity_.size,
                               .unix_us = wall_clock_us(),
                               .now = trace::TickClock::now()};
  return flight_json(head, clock_.scale(), recorders_.histories());
}

void Diagnosis::write_flight(const std::string& path, std::string_view why) const {
  replace_file(path, flight(why), ReadableBy::owner);
}

void Diagnosis::failed(const failure::Verdict& why) {
  if (failed_.exchange(true)) return;
  send_last_word(settings_.report_fd, {identity_.rank, why.culprit, why.message, identity_.generation});
  // True if the program itself gave the reason.
  const bool by_a_program = why.code == ErrorCode::aborted && why.culprit >= 0;
  if (by_a_program) return;
  write_flight_file(why.message);
  file_writer().wait(kFileLimit);
}

void Diagnosis::write_flight_file(std::string_view why) const {
  if (settings_.flight_dir == "none") return;
  Identity identity = identity_;
  identity.secret.clear();
  file_writer().add(
      [=, folder = settings_.flight_dir, flight = flight(why)] { save_flight(flight, folder, identity); });
}

Diagnosis::Services Diagnosis::serve(net::EventLoop& background) {
  Services services;
  if (!settings_.metrics.empty()) try {
      services.metrics = std::make_unique<services::Metrics>(background.context(), "ANELLO_METRICS", settings_.metrics,
                                                             identity_.local_rank, [this] { return metrics(); });
    } catch (const Error& error) {
      if (error.code() != ErrorCode::network) throw;
      log(Severity::warning, error.message() + "; this rank goes on without that page");
    }
  if (settings_.flight_signal != "none")
    services.on_signal = std::make_unique<services::OnSignal>(background.context(), settings_.flight_signal,
                                                              [this] { write_flight_file("a signal"); });
  return services;
}

}  // namespace anello::world
