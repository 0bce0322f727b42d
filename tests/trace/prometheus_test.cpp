#include "ring/trace/prometheus.hpp"

#include <gmock/gmock.h>

#include <sstream>

#include "tests/support/pattern.hpp"

namespace anello::trace {
namespace {

using testing::HasSubstr;

std::string page(const Tally& tally, const Scraped& scraped) {
  RejectedConnections rejected_connections;
  rejected_connections.count(RejectReason::secret);
  return prometheus_text(tally.totals(), rejected_connections.counts(), TickClock::Scale({0, 0}, {1, 500'000'000}),
                         scraped);  // a tick is half a s
}

TEST(Prometheus, HasALineForEveryCounter) {
  Tally tally;
  tally.done(Kind::allreduce, 400, 800, 600, 3);
  tally.done(Kind::allreduce, 400, 800, 600, 4);
  tally.done(Kind::barrier, 0, 0, 0, 1);
  tally.slept(6);
  tally.stalled();
  const std::string text = page(tally, {"a job", "here", 3, false});
  const std::string labels = "{job=\"a job\",host=\"here\",rank=\"3\"";
  for (const std::string& line :
       {"anello_operations_total" + labels + ",operation=\"allreduce\"} 2",
        "anello_operations_total" + labels + ",operation=\"barrier\"} 1",
        "anello_operations_total" + labels + ",operation=\"transfer\"} 0",
        "anello_tensor_bytes_total" + labels + ",operation=\"allreduce\"} 800",
        "anello_operation_seconds_total" + labels + ",operation=\"allreduce\"} 3.5",
        "anello_sent_bytes_total" + labels + "} 1600", "anello_received_bytes_total" + labels + "} 1200",
        "anello_waits_total" + labels + "} 1", "anello_wait_seconds_total" + labels + "} 3",
        "anello_stalls_total" + labels + "} 1", "anello_rejected_connections_total" + labels + ",kind=\"secret\"} 1",
        "anello_rejected_connections_total" + labels + ",kind=\"noise\"} 0", "anello_failed" + labels + "} 0"})
    EXPECT_THAT(text, HasSubstr("\n" + line + "\n"));
  EXPECT_THAT(page(tally, {"", "", 0, true}), HasSubstr("rank=\"0\"} 1\n"));
}

// Every line has the required format, and every metric has its help and type once and before its values.
TEST(Prometheus, KeepsToTheFormat) {
  const std::string sample = R"re(anello_[a-z_]+\{([a-z]+="([^"\\\n]|\\["\\n])*",?)*\} [0-9.e+-]+)re";
  const std::string comment = "# (HELP|TYPE) anello_[a-z_]+ .+";
  std::istringstream lines(page({}, {"job \"\\\n", "host", 1, false}));
  std::string line, described;
  int samples = 0;
  while (std::getline(lines, line)) {
    if (line.starts_with("# TYPE ")) described = line.substr(7, line.find(' ', 7) - 7);
    if (line.starts_with("#")) {
      EXPECT_TRUE(pattern::match(line, comment)) << line;
      continue;
    }
    EXPECT_TRUE(pattern::match(line, sample)) << line;
    EXPECT_EQ(line.substr(0, line.find('{')), described);
    samples++;
  }
  EXPECT_GT(samples, 30);
}

}  // namespace
}  // namespace anello::trace
