#include "ring/trace/prometheus.hpp"

#include <sstream>

namespace anello {
namespace {

std::string label(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    (c == '\n' ? out += "\\n" : out += c);
  }
  return out;
}

class Page {
 public:
  explicit Page(const Scraped& scraped) {
    std::ostringstream labels;
    labels << "job=\"" << label(scraped.job) << "\",host=\"" << label(scraped.host) << "\",rank=\"" << scraped.rank
           << "\"";
    labels_ = std::move(labels).str();
    out_.precision(12);
  }

  void describe(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_ << "# HELP anello_" << name << " " << help << "\n# TYPE anello_" << name << " " << type << "\n";
  }
  template <class Value>
  void value(Value value, std::string_view more = "") {
    out_ << "anello_" << name_ << "{" << labels_ << more << "} " << value << "\n";
  }
  template <class Of>
  void by_kind(Of of) {
    for (std::size_t k = std::size_t(Kind::allreduce); k < kKinds; k++)
      value(of(k), ",operation=\"" + std::string(name(Kind(k))) + "\"");
  }
  std::string text() && { return std::move(out_).str(); }

 private:
  std::string labels_;
  std::string_view name_;
  std::ostringstream out_;
};

}  // namespace

std::string prometheus_text(const Totals& totals, const TickClock::Scale& scale, const Scraped& scraped) {
  const auto seconds = [&](Ticks time) { return double(scale.nanoseconds(time)) * 1e-9; };
  Page page(scraped);
  page.describe("operations_total", "counter", "Operations that this rank has completed.");
  page.by_kind([&](std::size_t k) { return totals.kinds[k].operations; });
  page.describe("tensor_bytes_total", "counter", "Bytes of the tensors of completed operations.");
  page.by_kind([&](std::size_t k) { return totals.kinds[k].bytes; });
  page.describe("operation_seconds_total", "counter", "Time from the beginning to the end of completed operations.");
  page.by_kind([&](std::size_t k) { return seconds(totals.kinds[k].busy); });
  page.describe("sent_bytes_total", "counter", "Bytes of elements sent to other ranks by completed operations.");
  page.value(totals.sent_bytes);
  page.describe("received_bytes_total", "counter", "Bytes of elements received by completed operations.");
  page.value(totals.received_bytes);
  page.describe("waits_total", "counter", "Times that an operation slept until a peer had gone on.");
  page.value(totals.sleeps);
  page.describe("wait_seconds_total", "counter", "Time so slept.");
  page.value(seconds(totals.slept));
  page.describe("stalls_total", "counter", "Operations that were reported as stalled, each time.");
  page.value(totals.stalls);
  page.describe("failed", "gauge", "1 once the world has failed.");
  page.value(int(scraped.failed));
  return std::move(page).text();
}

}  // namespace anello
