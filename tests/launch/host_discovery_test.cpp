// Elastic jobs whose hosts a script lists: jobs grow on new hosts, and leave hosts that are missing in the list.
#include <algorithm>
#include <csignal>
#include <fstream>

#include "rendezvous/launch/run/host_discovery.hpp"
#include "ring/base/text.hpp"
#include "tests/launch/agents.hpp"
#include "tests/rendezvous/trainee.hpp"

namespace anello::launch {
namespace {

constexpr int kManySteps = 4000;

class DiscoveredHosts : public Agents {
 protected:
  void list(const std::string& hosts) {
    scratch_.put("hosts.new", hosts);
    std::filesystem::rename(scratch_ / "hosts.new", scratch_ / "hosts");
  }
  Words job(Words options, int fast_from) {
    Words words = {"run", "--host-discovery-script", text("cat ", (scratch_ / "hosts").string())};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", TRAINEE, std::to_string(kManySteps), "10", std::to_string(fast_from)});
    return anello(words);
  }
  Surroundings quiet(std::vector<std::string> more = {}) const {
    more.push_back("ANELLO_FLIGHT_DIR=none");
    return around(std::move(more));
  }
  static std::size_t results(const std::string& out) {
    const std::string line =
        text("weights ", std::uint64_t(trainee::expected(100, kManySteps)), " at ", kManySteps, "\n");
    return count(out, line);
  }
};

TEST_F(DiscoveredHosts, TheJobGrowsOnAHostThatIsListedLater) {
  list("h1:2\n");
  Process running(job({"-n", "2", "--min-np", "1"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:2\nh2:2\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_THAT(running.err(), HasSubstr("host h2 is listed, with 2 slots\n"));
  EXPECT_THAT(running.out(), ::testing::ContainsRegex("\\[3\\] world [0-9]: rank 3 of 4 "));
  EXPECT_EQ(results(running.out()), 4u) << running.out();
  EXPECT_TRUE(running.none_left());
}

// The second process of the new host joins a second after the first one.
TEST_F(DiscoveredHosts, ProcessesOfANewHostGoInByOneChange) {
  list("h1:2\n");
  Words words = job({"-n", "2", "--min-np", "1"}, 2);
  const Words late = {"sh", "-c", "[ $ANELLO_PLACE != 3 ] || sleep 1; exec \"$@\"", "sh"};
  words.insert(std::ranges::find(words, TRAINEE), late.begin(), late.end());
  Process running(words, quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:2\nh2:2\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_THAT(running.out(), HasSubstr("[2] world 2: rank 2 of 4 "));
  EXPECT_THAT(running.out(), HasSubstr("[3] world 2: rank 3 of 4 "));
}

TEST_F(DiscoveredHosts, ProcessesOfAHostThatIsNoLongerListedLeaveAtACommit) {
  list("h1:2\nh2:2\n");
  Process running(job({"-n", "4", "--min-np", "1"}, 2), quiet());
  ASSERT_TRUE(running.says("[3] world 1: ")) << running.err();
  list("h1:2\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_THAT(running.err(), HasSubstr("host h2 is no longer listed; its processes leave at the next commit\n"));
  EXPECT_THAT(running.out(), HasSubstr("[2] the others have finished\n"));
  EXPECT_THAT(running.out(), HasSubstr("[3] the others have finished\n"));
  EXPECT_EQ(results(running.out()), 2u) << running.out();
}

// The new processes join late, and get the state from a process that was asked to leave.
TEST_F(DiscoveredHosts, AllHostsMayBeExchanged) {
  list("h1:2\n");
  Words words = job({"-n", "2", "--min-np", "1", "--max-np", "2", "--max-restarts", "0"}, 9);
  const Words late = {"sh", "-c", "[ $ANELLO_PLACE -lt 2 ] || sleep 0.5; exec \"$@\"", "sh"};
  words.insert(std::ranges::find(words, TRAINEE), late.begin(), late.end());
  words[words.size() - 2] = "1";  // milliseconds of a step
  Process running(words, quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h2:2\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(count(running.out(), " the others have finished\n"), 2u) << running.out();
  EXPECT_EQ(results(running.out()), 2u) << running.out();
}

TEST_F(DiscoveredHosts, TheMaximumLimitsTheJob) {
  list("h1:2\n");
  Process running(job({"-n", "2", "--min-np", "1", "--max-np", "3"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:2\nh2:4\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out();
}

TEST_F(DiscoveredHosts, AScriptThatFailsLeavesTheHostsAsTheyAre) {
  list("h1:2\n");
  Process running(job({"-n", "2", "--min-np", "1"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  std::filesystem::remove(scratch_ / "hosts");
  ASSERT_TRUE(
      running.says_error("--host-discovery-script exited with status 1; the hosts stay as they are until it "
                         "succeeds\n"));
  list("h1:2\nh2\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out();
}

TEST_F(DiscoveredHosts, AListWithoutAHostLeavesThemAsTheyAre) {
  list("h1:2\n");
  Process running(job({"-n", "2", "--min-np", "1"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("\n");
  ASSERT_TRUE(running.says_error("names no host; write one a line: h1 slots=4; the hosts stay as they are until it "));
  list("\nh1:2\n\n# a comment\nh2\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out();
}

TEST_F(DiscoveredHosts, TheJobBeginsWithAllSlotsThatAreListed) {
  list("h1:2\nh2:2\n");
  Process running(job({"-n", "2", "--min-np", "1", "--max-np", "3"}, 1), quiet());
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out();
}

TEST_F(DiscoveredHosts, ANameThatDiffersOnlyInTheDomainIsTheSameHost) {
  list("h1:2\n");
  Process running(job({"-n", "2", "--min-np", "1"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1.example.org:2\nh2:1\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out();
  EXPECT_THAT(running.err(), ::testing::Not(HasSubstr("no longer listed")));
}

TEST_F(DiscoveredHosts, TheAgentOfAHostThatIsNoLongerListedEnds) {
  list("h1:1\nh2:1\n");
  Process running(job({"-n", "2", "--min-np", "1"}, 99), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  EXPECT_FALSE(processes(running, "agent 1").empty());
  list("h1:1\n");
  ASSERT_TRUE(running.says("[1] the others have finished\n"));
  for (int look = 0; look < 3000 && !processes(running, "agent 1").empty(); look++)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(processes(running, "agent 1").empty());
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
  EXPECT_THAT(running.err(), ::testing::Not(HasSubstr("was lost")));
}

TEST_F(DiscoveredHosts, SighupMakesTheLauncherReadItsHostFileAgain) {
  list("h1:2\n");
  const std::string file = (scratch_ / "hosts").string();
  Process running(anello({"run", "--hostfile", file, "--min-np", "1", "--max-np", "9", "--", TRAINEE,
                          std::to_string(kManySteps), "10", "3"}),
                  quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:2\nh2:1\n");
  running.signal(SIGHUP);
  ASSERT_TRUE(running.says_error("the hosts are read again from " + file + "\n")) << running.err();
  ASSERT_TRUE(running.says("[2] world 2: ")) << running.err();
  list("h 1\n");
  running.signal(SIGHUP);
  ASSERT_TRUE(running.says_error("; the hosts stay as they are\n")) << running.err();
  list("h2:1\n");
  running.signal(SIGHUP);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 1u) << running.out();
}

TEST_F(DiscoveredHosts, SighupEndsAJobWhoseHostsACommandLists) {
  list("h1:1\n");
  Process running(job({"-n", "1", "--min-np", "1"}, 99), quiet());
  ASSERT_TRUE(running.says("[0] world 1: ")) << running.err();
  running.signal(SIGHUP);
  EXPECT_TRUE(running.says_error("signal 1 (Hangup)")) << running.err();
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 129) << running.err();
}

TEST_F(DiscoveredHosts, ALostHostThatIsUsedAgainIsNotLeftOutOfARestart) {
  list("h1:1\nh2:1\n");
  Process running(anello({"run", "--hostfile", (scratch_ / "hosts").string(), "--min-np", "1", "--on-failure", "job",
                          "--restarts", "1", "--", TRAINEE, std::to_string(kManySteps), "10", "99"}),
                  quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  for (const pid_t agent : processes(running, "agent 1")) ::kill(agent, SIGKILL);
  ASSERT_TRUE(running.says_error("host h2 was lost: ")) << running.err();
  running.signal(SIGHUP);
  ASSERT_TRUE(running.says_error("host h2 is listed, with 1 slot\n")) << running.err();
  ASSERT_TRUE(running.says("[2] world ")) << running.err();
  ::kill(process_at(running, 0), SIGKILL);
  EXPECT_TRUE(running.says_error("restart 1 of 1 in 1 s\n")) << running.err();
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
}

TEST_F(DiscoveredHosts, AHostThatCannotBeUsedIsLeftOut) {
  list("h1:2\n");
  Process running(job({"-n", "2", "--min-np", "1"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:2\ndown1:2\n");
  ASSERT_TRUE(running.says_error("host down1 cannot be used: "));
  list("h1:2\ndown1:2\nh2:1\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out() << running.err();
}

TEST_F(DiscoveredHosts, BelowTheMinimumTheJobWaitsForHosts) {
  list("h1:1\nh2:1\n");
  Process running(job({"-n", "2", "--min-np", "2"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:1\n");
  ASSERT_TRUE(running.says("[1] the others have finished\n"));
  list("h1:1\nh3:1\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 2u) << running.out();
}

TEST_F(DiscoveredHosts, BelowTheMinimumTheJobEndsAfterItsPatience) {
  list("h1:1\nh2:1\n");
  Process running(job({"-n", "2", "--min-np", "2", "--elastic-timeout", "2"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:1\n");
  EXPECT_NE(running.wait(), 0);
  EXPECT_TRUE(running.none_left());
}

TEST_F(DiscoveredHosts, TheJobBeginsWhenThereAreEnoughSlots) {
  list("h1:1\n");
  Process running(job({"-n", "3", "--min-np", "1"}, 1), quiet());
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_EQ(running.out(), "");
  list("h1:1\nh2:2\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out();
}

TEST(HostDiscovery, ReadsAHostALine) {
  const auto listed = [](const std::string& lines) {
    std::string out;
    for (const Host& host : discover_hosts("printf '" + lines + "'", 1, 0, std::chrono::seconds(60)))
      out += text(host.name, "=", host.slots.value_or(0), " ");
    return out;
  };
  EXPECT_EQ(listed("a-1"), "a-1=1 ");
  EXPECT_EQ(listed("a-1:2"), "a-1=2 ");
  EXPECT_EQ(listed("a-1\\na-5"), "a-1=1 a-5=1 ");
  EXPECT_EQ(listed("\\na-1:2\\n\\na-4:3\\n"), "a-1=2 a-4=3 ");
  EXPECT_EQ(listed("a-4:3\\na-1 slots=2"), "a-4=3 a-1=2 ") << "in the order of the list";
}

TEST_F(DiscoveredHosts, TooFewHostsAtTheBeginningAreNamed) {
  list("h1:1\n");
  const auto says = [this](Words options, std::vector<std::string> variables = {"ANELLO_START_TIMEOUT=300"}) {
    const Outcome outcome = testing::run(job(std::move(options), 2), quiet(std::move(variables)));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(testing::lines(outcome.err).size(), 1u) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(says({"-n", "2", "--min-np", "1"}), HasSubstr("it lists 1 slots, and the job begins with 2 processes"));
  EXPECT_THAT(says({"-n", "2"}), HasSubstr("add --min-np N"));
  EXPECT_THAT(says({"--min-np", "2"}), HasSubstr("add -n N"));
  EXPECT_THAT(says({"-n", "2", "--min-np", "2", "-H", "h1:2"}), HasSubstr("leave out -H"));
  std::filesystem::remove(scratch_ / "hosts");
  const Outcome failing = testing::run(job({"-n", "1", "--min-np", "1"}, 2), quiet({"ANELLO_START_TIMEOUT=300"}));
  EXPECT_THAT(failing.err, HasSubstr("anello: --host-discovery-script exited with status 1\n"));
}

TEST_F(DiscoveredHosts, TheEndOfTheTrainingDoesNotWaitForAHostThatDoesNotAnswer) {
  list("h1:2\n");
  Process running(job({"-n", "2", "--min-np", "1"}, 2), quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  list("h1:2\nmute1:1\nh2:1\n");
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(results(running.out()), 3u) << running.out();
  EXPECT_THAT(running.err(), ::testing::Not(HasSubstr("mute1 has not answered")));
}

TEST_F(DiscoveredHosts, AScriptThatClosesItsOutputAndGoesOnDelaysNothing) {
  scratch_.put("list", "#!/bin/sh\necho h1:2\nexec >&-\n[ -e " + (scratch_ / "slow").string() + " ] && sleep 300\n:\n");
  std::filesystem::permissions(scratch_ / "list", std::filesystem::perms::owner_all);
  Process running(anello({"run", "--host-discovery-script", (scratch_ / "list").string(), "-n", "2", "--min-np", "1",
                          "--", TRAINEE, "100000", "10", "99"}),
                  quiet());
  ASSERT_TRUE(running.says("[1] world 1: ")) << running.err();
  scratch_.put("slow", "");
  std::this_thread::sleep_for(milliseconds(1500));
  const auto began = std::chrono::steady_clock::now();
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143) << running.err();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(6));
}

}  // namespace
}  // namespace anello::launch
