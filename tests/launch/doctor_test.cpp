// `anello doctor` on several ranks: the schedule, the comparison of hosts, and the whole command.
#include <algorithm>
#include <anello/error.hpp>
#include <set>
#include <sstream>

#include "rendezvous/launch/doctor/findings.hpp"
#include "rendezvous/launch/doctor/host_comparison.hpp"
#include "rendezvous/launch/doctor/link_measurement.hpp"
#include "rendezvous/launch/doctor/tournament.hpp"
#include "tests/launch/launched.hpp"

namespace anello::launch {
namespace {

TEST(Tournament, EachMeetsEachOtherOnceAndOneAtATime) {
  for (int players = 0; players <= 17; players++) {
    std::set<std::pair<int, int>> met;
    const std::vector<Round> rounds = tournament(players);
    EXPECT_EQ(rounds.size(), players < 2 ? 0u : std::size_t(players - 1 + players % 2));
    for (const Round& round : rounds) {
      std::set<int> busy;
      for (const auto& [one, other] : round) {
        EXPECT_TRUE(0 <= one && one < other && other < players);
        EXPECT_TRUE(busy.insert(one).second && busy.insert(other).second) << players << " players";
        EXPECT_TRUE(met.emplace(one, other).second) << one << " meets " << other << " twice";
      }
    }
    EXPECT_EQ(met.size(), std::size_t(players * (players - 1) / 2));
  }
}

Findings findings(const std::string& mtu) {
  Findings out;
  out.fact("network", "eth0, MTU " + mtu);
  return out;
}

std::vector<HostFindings> hosts(std::size_t count) {
  std::vector<HostFindings> out;
  for (std::size_t i = 0; i < count; i++) out.push_back({"h" + std::to_string(i), findings("1500")});
  return out;
}

// All pairs, each with 1 GB/s and 20 us.
std::vector<HostLink> good_links(std::size_t count) {
  std::vector<HostLink> out;
  for (std::size_t from = 0; from < count; from++)
    for (std::size_t to = from + 1; to < count; to++) out.push_back({from, to, 20, 1e9, 1e9, 0});
  return out;
}

HostLink& link(std::vector<HostLink>& links, std::size_t from, std::size_t to) {
  return *std::ranges::find_if(links, [&](const HostLink& one) { return one.from == from && one.to == to; });
}

TEST(HostComparison, FindsNothingWhereAllAreEqual) {
  for (std::size_t count = 1; count <= 6; count++)
    EXPECT_EQ(compare_hosts(hosts(count), good_links(count)), std::vector<std::string>{});
}

TEST(HostComparison, NamesTheOddHostAndWhatMostHaveInstead) {
  auto three = hosts(3);
  three[1].findings = findings("9000");
  EXPECT_EQ(compare_hosts(three, good_links(3)),
            std::vector<std::string>{"h1: network is eth0, MTU 9000; on most hosts it is eth0, MTU 1500"});
  auto two = hosts(2);
  two[1].findings = findings("9000");
  EXPECT_TRUE(compare_hosts(two, good_links(2)).empty()) << "neither of two is the odd one";
}

TEST(HostComparison, IgnoresWhatHostsMayHaveOfTheirOwn) {
  auto three = hosts(3);
  three[1].findings.fact_of_one_host("interface eth0", "10.0.0.2");
  EXPECT_TRUE(compare_hosts(three, good_links(3)).empty());
}

TEST(HostComparison, PassesOnTheProblemsOfHosts) {
  auto three = hosts(3);
  for (const std::size_t host : {0, 2}) three[host].findings.problem("only 64 open files are allowed");
  EXPECT_EQ(compare_hosts(three, {}), std::vector<std::string>{"h0, h2: only 64 open files are allowed"});
}

TEST(HostComparison, NamesASlowLinkByItsDirection) {
  auto links = good_links(4);
  link(links, 1, 3).back_rate = 4e8;
  const auto problems = compare_hosts(hosts(4), links);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(contains(problems[0], "the link from h3 to h1 is slow (3.2 Gbit/s; good links have 8 Gbit/s)"))
      << problems[0];
}

TEST(HostComparison, NamesTheHostWhereAllItsLinksAreSlow) {
  auto links = good_links(4);
  for (const std::size_t other : {0, 1, 2}) link(links, other, 3).rate = link(links, other, 3).back_rate = 1e8;
  auto problems = compare_hosts(hosts(4), links);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].starts_with("all links from and to h3 are slow (0.8 Gbit/s")) << problems[0];
  for (const std::size_t other : {0, 1, 2}) link(links, other, 3).rate = 1e9;
  problems = compare_hosts(hosts(4), links);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].starts_with("all links from h3 are slow")) << problems[0];
}

TEST(HostComparison, ComparesTheTwoDirectionsOfTwoHosts) {
  auto links = good_links(2);
  links[0].rate = 1e8;
  const auto problems = compare_hosts(hosts(2), links);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_TRUE(problems[0].starts_with("the link from h0 to h1 is slow")) << problems[0];
}

TEST(HostComparison, NamesHighLatenciesAndWrongClocks) {
  auto links = good_links(4);
  link(links, 0, 1).latency_us = 60;  // within the noise
  link(links, 1, 2).latency_us = 500;
  link(links, 0, 3).clock_offset_us = -90e6;
  const auto problems = compare_hosts(hosts(4), links);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_TRUE(contains(problems[0], "the link from h1 to h2 has a high latency (500 us; good links have 20 us)"))
      << problems[0];
  EXPECT_TRUE(contains(problems[1], "h3: its clock is 90 s behind that of h0")) << problems[1];
}

TEST(HostComparison, ShowsTheSlowestOfManyLinks) {
  auto links = good_links(9);
  link(links, 2, 5).rate = 1e7;
  std::ostringstream out;
  print_links(hosts(9), links, out);
  EXPECT_TRUE(contains(out.str(), "the 10 slowest of 36 links between hosts:\nh2 - h5 ")) << out.str();
  EXPECT_EQ(testing::lines(out.str()).size(), 12u);
}

TEST(Findings, TravelAsText) {
  Findings sent = findings("1500");
  sent.fact_of_one_host("interface eth0", "10.0.0.1 \xff");
  sent.problem("bad");
  const Findings came = decode_findings(encode(sent));
  EXPECT_EQ(came.facts.size(), 2u);
  EXPECT_TRUE(came.facts[0] == sent.facts[0] && came.facts[1].differs);
  EXPECT_EQ(came.problems, sent.problems);
  for (const char* wrong : {"", "[]", "{\"facts\":[[1]],\"problems\":[]}", "{\"facts\":[]}"})
    EXPECT_THROW((void)decode_findings(wrong), Error) << wrong;
  EXPECT_THROW((void)decode_links("[[1,2,null]]"), Error);
}

TEST(Doctor, MeasuresTheLinksOfAWorld) {
  const Outcome outcome = testing::run(anello({"run", "-n", "3", "--", ANELLO_PROGRAM, "doctor"}));
  for (const char* part : {"[0] 3 ranks on 1 host\n", "[0] network              lo, MTU ", ", ranks 0-1", "Gbit/s and ",
                           "[0] no problems found"})
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out << outcome.err;
  EXPECT_FALSE(contains(outcome.out, "[1]")) << outcome.out;
}

TEST(Doctor, SaysWhyItCannotJoinItsWorld) {
  const Outcome outcome =
      testing::run(anello({"doctor"}),
                   {.environment = {"ANELLO_SIZE=2", "ANELLO_START_TIMEOUT=200", "ANELLO_RENDEZVOUS=127.0.0.1:1"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.out, "problems:\n  no rendezvous at 127.0.0.1:1")) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace anello::launch
