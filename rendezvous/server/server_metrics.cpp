#include "rendezvous/server/server_metrics.hpp"

#include "ring/trace/prometheus_writer.hpp"

namespace anello::rendezvous {

std::string server_metrics(std::string_view job, const ServerStats& stats) {
  trace::PrometheusWriter writer({{"job", job}});
  writer.describe("rendezvous_members", "gauge", "Ranks that have joined the world that gathers or starts.");
  writer.value(stats.members);
  writer.describe("rendezvous_generation", "gauge", "Number of the world that gathers or starts.");
  writer.value(stats.generation);
  writer.describe("rendezvous_worlds_total", "counter", "Worlds that have formed.");
  writer.value(stats.worlds_formed);
  writer.describe("rendezvous_half_open", "gauge", "Connections that have not joined yet.");
  writer.value(stats.half_open);
  writer.rejected_connections(stats.rejected_connections);
  return std::move(writer).text();
}

}  // namespace anello::rendezvous
