// A page of metrics in the text format that Prometheus scrapes, written from top to bottom. Pure.
// Source: "Exposition formats", prometheus.io, version 0.0.4.
#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ring/trace/rejected_connections.hpp"

namespace anello::trace {

class PrometheusWriter {
 public:
  using Label = std::pair<std::string_view, std::string_view>;

  // `labels`: added to all samples.
  explicit PrometheusWriter(const std::vector<Label>& labels);

  // Describes a metric; `name` is without the prefix "anello_". Call value() next.
  void describe(std::string_view name, std::string_view type, std::string_view help);
  template <class Value>
  void value(Value value, const std::vector<Label>& more = {}) {
    out_ << "anello_" << name_ << "{" << labels_ << text(more, !labels_.empty()) << "} " << value << "\n";
  }
  void rejected_connections(const RejectedConnections::Counts& counts);

  std::string text() && { return std::move(out_).str(); }

 private:
  static std::string text(const std::vector<Label>& labels, bool after_others);

  std::string labels_;
  std::string_view name_;
  std::ostringstream out_;
};

}  // namespace anello::trace
