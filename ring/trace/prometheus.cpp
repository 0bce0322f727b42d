#include "ring/trace/prometheus.hpp"

#include "ring/base/text.hpp"
#include "ring/trace/prometheus_writer.hpp"

namespace anello::trace {
namespace {

template <class Of>
void by_kind(PrometheusWriter& page, Of of) {
  for (std::size_t k = std::size_t(Kind::allreduce); k < kKinds; k++) page.value(of(k), {{"operation", name(Kind(k))}});
}

}  // namespace

std::string prometheus_text(const Totals& totals, const RejectedConnections::Counts& rejected_connections,
                            const TickClock::Scale& scale, const Scraped& scraped) {
  const auto seconds = [&](Ticks time) { return double(scale.nanoseconds(time)) * 1e-9; };
  PrometheusWriter page({{"job", scraped.job}, {"host", scraped.host}, {"rank", text(scraped.rank)}});
  page.describe("operations_total", "counter", "Operations that this rank has completed.");
  by_kind(page, [&](std::size_t k) { return totals.kinds[k].operations; });
  page.describe("tensor_bytes_total", "counter", "Bytes of the tensors of completed operations.");
  by_kind(page, [&](std::size_t k) { return totals.kinds[k].bytes; });
  page.describe("operation_seconds_total", "counter", "Time from the beginning to the end of completed operations.");
  by_kind(page, [&](std::size_t k) { return seconds(totals.kinds[k].busy); });
  page.describe("sent_bytes_total", "counter", "Bytes of elements sent to other ranks by completed operations.");
  page.value(totals.sent_bytes);
  page.describe("received_bytes_total", "counter", "Bytes of elements received by completed operations.");
  page.value(totals.received_bytes);
  page.describe("waits_total", "counter", "Number of times that an operation slept because a peer was late.");
  page.value(totals.sleeps);
  page.describe("wait_seconds_total", "counter", "Time that operations slept.");
  page.value(seconds(totals.slept));
  page.describe("stalls_total", "counter", "Reports of stalled operations.");
  page.value(totals.stalls);
  page.rejected_connections(rejected_connections);
  page.describe("failed", "gauge", "1 once the world has failed.");
  page.value(int(scraped.failed));
  return std::move(page).text();
}

}  // namespace anello::trace
