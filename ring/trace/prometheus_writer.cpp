#include "ring/trace/prometheus_writer.hpp"

namespace anello::trace {
namespace {

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    (c == '\n' ? out += "\\n" : out += c);
  }
  return out;
}

}  // namespace

PrometheusWriter::PrometheusWriter(const std::vector<Label>& labels) : labels_(text(labels, false)) {
  out_.precision(12);
}

std::string PrometheusWriter::text(const std::vector<Label>& labels, bool after_others) {
  std::string out;
  for (const auto& [name, value] : labels) {
    if (after_others || !out.empty()) out += ",";
    ((out += name) += "=\"") += escaped(value) + "\"";
  }
  return out;
}

void PrometheusWriter::describe(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  out_ << "# HELP anello_" << name << " " << help << "\n# TYPE anello_" << name << " " << type << "\n";
}

void PrometheusWriter::rejected_connections(const RejectedConnections::Counts& counts) {
  describe("rejected_connections_total", "counter", "Connections that were rejected, by reason.");
  for (std::size_t k = 0; k < kRejectReasons; k++) value(counts[k], {{"kind", name(RejectReason(k))}});
}

}  // namespace anello::trace
