// MASTER_ADDR and MASTER_PORT of ranks; the user's option -x has precedence. tests/cluster/master_test.cpp tests
// several hosts.
#include "rendezvous/launch/job/master.hpp"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include <map>
#include <set>

#include "rendezvous/protocol/host.hpp"
#include "tests/launch/agents.hpp"
#include "tests/support/free_ports.hpp"

namespace anello::launch {
namespace {

const std::string kShow = "echo $MASTER_ADDR $MASTER_PORT";

// Sockets that listen at ports from `first` on.
class TakenPorts {
 public:
  TakenPorts(std::uint16_t first, int count) {
    for (int i = 0; i < count; i++)
      acceptors_.emplace_back(context_, asio::ip::tcp::endpoint(asio::ip::tcp::v4(), std::uint16_t(first + i)));
  }

 private:
  asio::io_context context_;
  std::vector<asio::ip::tcp::acceptor> acceptors_;
};

TEST(MasterPort, IsFreeAndLeavesTheLowestPortsToTheRanks) {
  std::set<unsigned> taken = {100, 103};
  const auto is_free = [&](std::uint16_t port) { return !taken.contains(port); };
  for (const char* job : {"a", "b", "c", "d", "e", "f"}) {
    const auto port = choose_master_port(job, {100, 107}, 3, is_free);  // ranks take 101, 102 and 104
    ASSERT_TRUE(port);
    EXPECT_TRUE(*port >= 105 && *port <= 107) << *port;
    EXPECT_EQ(choose_master_port(job, {100, 107}, 3, is_free), port);
  }
  std::set<unsigned> found;
  for (int job = 0; job < 100; job++) found.insert(*choose_master_port(std::to_string(job), {100, 107}, 3, is_free));
  EXPECT_EQ(found.size(), 3u) << "jobs have different ports";
}

TEST(MasterPort, IsTheHighestWhereRanksNeedAll) {
  EXPECT_EQ(choose_master_port("job", {100, 102}, 3, [](auto) { return true; }), 102);
  EXPECT_EQ(choose_master_port("job", {100, 102}, 9, [](auto port) { return port == 101; }), 101);
  EXPECT_EQ(choose_master_port("job", {100, 102}, 1, [](auto) { return false; }), std::nullopt);
  EXPECT_EQ(choose_master_port("job", {65535, 65535}, 0, [](auto) { return true; }), 65535);
}

TEST(MasterPort, IsInTheRangeAndNotATakenOne) {
  const std::uint16_t first = consecutive_free_ports(8);
  const TakenPorts taken(first, 5);
  const std::string range = text("ANELLO_PORT_RANGE=", first, "-", first + 7);
  for (int i = 0; i < 4; i++) {
    const Outcome outcome = testing::run(ranks(1, kShow), {.environment = {range}});
    const int port = std::stoi(outcome.out.substr(outcome.out.rfind(' ')));
    EXPECT_TRUE(port >= first + 6 && port <= first + 7) << outcome.out << "the rank takes the lowest free port";
  }
  const TakenPorts others(std::uint16_t(first + 5), 3);
  const Outcome none = testing::run(ranks(1, kShow), {.environment = {range}});
  EXPECT_NE(none.code, 0);
  EXPECT_THAT(none.err, HasSubstr(text("no port from ", first, " to ", first + 7, " is free for MASTER_PORT")));
}

TEST(MasterPort, FollowsTheUser) {
  const Words given = {"-x", "MASTER_PORT=29507", "-x", "MASTER_ADDR=::1"};
  EXPECT_THAT(testing::lines(testing::run(ranks(2, kShow, given)).out),
              UnorderedElementsAre("[0] ::1 29507", "[1] ::1 29507"));
  EXPECT_THAT(testing::run(ranks(1, kShow, {"-x", "MASTER_PORT"}), {.environment = {"MASTER_PORT=7"}}).out,
              HasSubstr("[0] 127.0.0.1 7\n"));
  EXPECT_THAT(testing::run(ranks(1, kShow), {.environment = {"MASTER_PORT=7", "MASTER_ADDR=outer"}}).out,
              ::testing::Not(::testing::AnyOf(HasSubstr(" 7\n"), HasSubstr("outer"))))
      << "those of a launcher around this one";
  const std::map<std::string, std::string> wrong = {{"MASTER_PORT=many", "-x MASTER_PORT='many' is not a whole number"},
                                                    {"MASTER_PORT=0", "-x MASTER_PORT='0' is not a whole number"},
                                                    {"MASTER_ADDR=", "-x MASTER_ADDR: its value is empty"}};
  for (const auto& [entry, message] : wrong) {
    const Outcome refused = testing::run(ranks(1, kShow, {"-x", entry}));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr(message));
  }
}

TEST_F(Agents, RanksOfAllHostsHaveOneMaster) {
  const std::vector<std::string> found = testing::lines(testing::run(job("h1:2,h2:1", kShow), around()).out);
  ASSERT_EQ(found.size(), 3u);
  const std::string place = found[0].substr(4);
  EXPECT_THAT(place, ::testing::StartsWith("127.0.0.1 2")) << "the stand-in for ssh stays on this host";
  for (const std::string& line : found) EXPECT_EQ(line.substr(4), place);
  EXPECT_EQ(testing::run(job("h1", kShow, {"-x", "MASTER_ADDR=there", "-x", "MASTER_PORT=29507"}), around()).out,
            "[0] there 29507\n");
}

// The rendezvous, the listener for agents, a rank and the master need a port each, but not all at the same time.
TEST_F(Agents, TwoPortsSuffice) {
  const std::uint16_t first = consecutive_free_ports(2);
  const Outcome outcome = testing::run(job("h1", kShow), around({text("ANELLO_PORT_RANGE=", first, "-", first + 1)}));
  EXPECT_EQ(outcome.out, text("[0] 127.0.0.1 ", first + 1, "\n")) << outcome.err;
}

TEST_F(Agents, ADryRunSaysWhatIsFoundAtTheStart) {
  EXPECT_THAT(testing::run(job("user@h1:1,h2:1", "true", {"--dry-run"}), around()).out,
              ::testing::AllOf(HasSubstr(" MASTER_ADDR=ADDRESS_OF_h1 MASTER_PORT=PORT"),
                               HasSubstr(" TF_NUM_INTEROP_THREADS=SHARE_OF_CORES")));
  EXPECT_THAT(testing::run(job("h1:1,h2:1", "true", {"--dry-run", "-x", "MASTER_ADDR=10.1.1.1"}), around()).out,
              HasSubstr(" MASTER_ADDR=10.1.1.1 MASTER_PORT=PORT"));
  EXPECT_THAT(testing::run(ranks(2, "true", {"--dry-run", "-x", "MASTER_PORT=29507"})).out,
              HasSubstr(" MASTER_ADDR=127.0.0.1 MASTER_PORT=29507"));
}

// Launchers of one job cannot ask each other for a free port.
TEST_F(Agents, SeveralLaunchersAgreeOnTheMaster) {
  const std::uint16_t first = consecutive_free_ports(2);
  const auto shown = [&](const std::string& node) {
    return testing::run(anello({"run", "-n", "1", "--nnodes", "2", "--node-rank", node, "--rendezvous",
                                text("127.0.0.1:", first + 1), "--dry-run", "--", "true"}),
                        {.environment = {text("ANELLO_PORT_RANGE=", first, "-", first + 1)}});
  };
  const std::string expected = text(" MASTER_ADDR=127.0.0.1 MASTER_PORT=", first);
  EXPECT_THAT(shown("0").out, HasSubstr(expected)) << "not the port of the rendezvous";
  EXPECT_THAT(shown("1").out, HasSubstr(expected));
  EXPECT_EQ(shown("0").err, "");
  const TakenPorts taken(first, 1);
  EXPECT_THAT(shown("1").out, HasSubstr(expected)) << "the port is on the other host";
}

// If the launchers did not refuse the port, rank 0 could not listen at it, and ranks of other hosts would connect to a
// foreign program.
TEST_F(Agents, AMasterPortThatIsTakenIsRefusedOnAllHosts) {
  const std::uint16_t first = consecutive_free_ports(2);
  const auto node = [&](const std::string& number, Words options = {}) {
    Words words = {
        "run", "-n", "1", "--nnodes", "2", "--node-rank", number, "--rendezvous", text("127.0.0.1:", first + 1)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", kShow + "; exec " WAITER " early"});
    return anello(words);
  };
  const Surroundings around{.environment = {text("ANELLO_PORT_RANGE=", first, "-", first + 1)}};
  const TakenPorts taken(first, 1);
  const std::string reason = text(
      "port ", first, " of ", rendezvous::host_name(), ", which is MASTER_PORT on all hosts, is not free: process ",
      getpid(), " (launch_test) has it; add -x MASTER_PORT=PORT on all hosts, with a port that is ", "free there");
  Process second(node("1"), around), refused(node("0"), around);
  EXPECT_EQ(refused.wait(), 1);
  EXPECT_THAT(refused.err(), HasSubstr(reason));
  EXPECT_EQ(refused.out(), "") << "no rank has started";
  EXPECT_NE(second.wait(), 0);
  EXPECT_THAT(second.err() + second.out(), HasSubstr(reason));

  const Words given = {"-x", text("MASTER_PORT=", first)};
  Process other(node("1", given), around), allowed(node("0", given), around);
  EXPECT_TRUE(allowed.says(text("[0] 127.0.0.1 ", first, "\n"))) << "the user may have a reason";
  allowed.wait();
  other.wait();
}

}  // namespace
}  // namespace anello::launch
