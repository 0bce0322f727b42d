#include "ring/trace/flight_file.hpp"

#include <sstream>

#include "ring/trace/json_text.hpp"

namespace anello::trace {
namespace {

class FlightWriter {
 public:
  FlightWriter(const FlightHead& head, const TickClock::Scale& scale) : head_(head), scale_(scale) {}

  std::string all(const std::vector<History>& histories) {
    out_ << "{\"rank\":" << head_.rank << ",\"size\":" << head_.size << ",\"host\":" << json_text(head_.host)
         << ",\"job\":" << json_text(head_.job) << ",\"generation\":" << head_.generation << ",\"incarnation\":\""
         << std::hex << head_.incarnation << std::dec << "\""
         << ",\"why\":" << json_text(head_.why) << ",\"written_us\":" << head_.unix_us << ",\"groups\":[";
    for (const History& history : histories) {
      out_ << (&history == histories.data() ? "\n" : ",\n");
      group(history);
    }
    out_ << "\n]}\n";
    return std::move(out_).str();
  }

 private:
  void group(const History& history) {
    out_ << " {\"id\":\"" << std::hex << history.group << std::dec << "\",\"group\":" << json_text(history.name)
         << ",\"members\":[";
    for (std::size_t k = 0; k < history.members.size(); k++) out_ << (k ? "," : "") << history.members[k];
    out_ << "],\"operations\":[";
    for (const Record& record : history.records) {
      out_ << (&record == history.records.data() ? "\n  " : ",\n  ");
      operation(record);
    }
    out_ << "]}";
  }

  void operation(const Record& record) {
    const char* const state = record.ended ? "done" : record.begun ? "begun" : "queued";
    out_ << "{\"sequence\":" << record.signature.sequence << ",\"operation\":" << json_text(describe(record.signature))
         << ",\"name\":" << json_text(record.title()) << ",\"state\":\"" << state << "\"";
    time("queued_us", record.queued);
    time("begun_us", record.begun);
    time("ended_us", record.ended);
    out_ << "}";
  }

  void time(std::string_view what, Ticks at) {
    out_ << ",\"" << what << "\":";
    if (at == 0)
      out_ << "null";
    else
      out_ << head_.unix_us + (scale_.steady_ns(at) - head_.now.steady_ns) / 1000;
  }

  const FlightHead& head_;
  const TickClock::Scale& scale_;
  std::ostringstream out_;
};

}  // namespace

std::string flight_json(const FlightHead& head, const TickClock::Scale& scale, const std::vector<History>& histories) {
  return FlightWriter(head, scale).all(histories);
}

}  // namespace anello::trace
