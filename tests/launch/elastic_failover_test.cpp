// An elastic job without a launcher, whose servers are killed one after another, and whose processes come and go at
// random. Its result must be that of an undisturbed training.
#include "tests/launch/failover_job.hpp"
#include "tests/rendezvous/trainee.hpp"

namespace anello::launch {
namespace {

constexpr int kFailoverSteps = 3000, kFirst = 4, kLeast = 2, kMax = 6, kEvents = 20, kFailoverWorlds = 16;

FailoverJob::Site this_host() {
  const Surroundings around{
      .environment = {"ANELLO_FLIGHT_DIR=none", text("ANELLO_SILENCE_LIMIT=", kSilenceLimit.count())}};
  return {
      .serve =
          [around] {
            return std::make_unique<Process>(anello({"rendezvous", "--min-np", "1", "--max-np", std::to_string(kMax),
                                                     "--np", std::to_string(kFirst), "--successor"}),
                                             around);
          },
      .join =
          [around](int, const std::string& address) {
            Surroundings with_address = around;
            with_address.environment.push_back(address);
            return std::make_unique<Process>(
                Words{TRAINEE, std::to_string(kFailoverSteps), "10", std::to_string(kFailoverWorlds)}, with_address);
          },
      .begins =
          [](const auto& members) {
            return std::ranges::all_of(members, [](const auto& one) { return one.process->says("world 1: "); });
          }};
}

std::string what_is_wrong(FailoverJob& job) {
  if (!job.begins()) return "it does not begin";
  if (std::string wrong = job.disturb(kEvents); !wrong.empty()) return wrong;
  const std::string result =
      text("weights ", std::uint64_t(trainee::expected(100, kFailoverSteps)), " at ", kFailoverSteps, "\n");
  return job.end([&](const Process& one) { return one.out().ends_with(result) ? "" : "another result: " + one.out(); });
}

TEST(ElasticFailover, ChangesNothing) {
  int servers_killed = 0;
  with_seeds(1, [&](unsigned seed) {
    FailoverJob job(seed, kFirst, kLeast, kMax, this_host());
    const std::string wrong = what_is_wrong(job);
    std::printf("%d events, %d servers killed\n", job.events(), job.servers_killed());
    servers_killed += job.servers_killed();
    return wrong.empty() ? "" : wrong + "; " + job.story();
  });
  EXPECT_GT(servers_killed, 0);
}

}  // namespace
}  // namespace anello::launch
