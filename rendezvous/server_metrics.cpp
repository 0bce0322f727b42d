#include "rendezvous/server_metrics.hpp"

#include "ring/trace/prometheus_writer.hpp"

namespace anello::rendezvous {

std::string page(std::string_view job, const ServerStats& stats) {
  PrometheusWriter page({{"job", job}});
  page.describe("rendezvous_members", "gauge", "Ranks that have joined the world that gathers or starts.");
  page.value(stats.members);
  page.describe("rendezvous_generation", "gauge", "Number of that world.");
  page.value(stats.generation);
  page.describe("rendezvous_worlds_total", "counter", "Worlds that have formed.");
  page.value(stats.worlds_formed);
  page.describe("rendezvous_half_open", "gauge", "Connections that have not joined yet.");
  page.value(stats.half_open);
  page.rejected_connections(stats.rejected_connections);
  return std::move(page).text();
}

}  // namespace anello::rendezvous
