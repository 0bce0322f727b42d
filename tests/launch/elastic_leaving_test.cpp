// Processes of elastic jobs that leave because of SIGTERM, and things that processes leave behind.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>

#include "ring/base/text.hpp"
#include "tests/launch/agents.hpp"
#include "tests/rendezvous/trainee.hpp"

namespace anello::launch {
namespace {

// Waits until the condition is true, for at most half a minute. Returns false if it does not become true.
bool soon(const std::function<bool()>& condition) {
  for (int look = 0; look < 3000 && !condition(); look++) std::this_thread::sleep_for(milliseconds(10));
  return condition();
}

class ElasticLeaving : public Agents {
 protected:
  static constexpr int kSteps = 4000;

  // Each step takes `step_ms` until the world `fast_from` has begun, and then next to nothing.
  static Words training(Words options, int fast_from, int step_ms = 10) {
    Words words = {"run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", TRAINEE, text(kSteps), text(step_ms), text(fast_from)});
    return anello(words);
  }
  Surroundings around(const std::string& flight_signal = "none") const {
    return Agents::around({"ANELLO_FLIGHT_DIR=none", "ANELLO_FLIGHT_SIGNAL=" + flight_signal});
  }
  static std::size_t results(const std::string& out) {
    return count(out, text("weights ", std::uint64_t(trainee::expected(100, kSteps)), " at ", kSteps, "\n"));
  }
  static void send(const Process& launcher, int place, int signal) {
    const pid_t pid = process_at(launcher, place);
    ASSERT_GT(pid, 0) << "place " << place << " has no process";
    ::kill(pid, signal);
  }
};

TEST_F(ElasticLeaving, AProcessThatReceivesASignalOfItsSchedulerLeavesAtACommit) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    Process running(training({"-n", "3", "--min-np", "1", "--max-restarts", "0"}, 2), around());
    for (int place = 0; place < 3; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
    send(running, 1, signal);
    EXPECT_EQ(running.wait(), 0) << running.err();
    EXPECT_THAT(running.err(), HasSubstr("process 1 was asked by a signal to leave, and does so at the next commit\n"));
    EXPECT_THAT(running.err(), HasSubstr("process 1 has left after a signal, and its place stays empty\n"));
    EXPECT_THAT(running.out(), HasSubstr("[1] the others have finished\n"));
    EXPECT_EQ(results(running.out()), 2u) << running.out();
  }
}

TEST_F(ElasticLeaving, AfterSigtermAFreePlaceOfAnotherHostIsUsed) {
  Process running(
      training({"-H", "h1:2,h2:1", "-n", "2", "--min-np", "1", "--max-np", "3", "--max-restarts", "0"}, 9, 1),
      around());
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  send(running, 0, SIGTERM);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_THAT(running.out(), HasSubstr("[2] world "));
  EXPECT_EQ(results(running.out()), 2u) << running.out();
}

TEST_F(ElasticLeaving, ASecondSignalEndsAProcessAtOnce) {
  for (const int first : {SIGTERM, SIGUSR1}) {
    Process running(training({"-n", "2", "--min-np", "1", "--max-restarts", "0", "--grace", "100"}, 2, 600000),
                    around());
    for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
    send(running, 1, first);
    ASSERT_TRUE(running.says_error("process 1 was asked by a signal")) << running.err();
    send(running, 1, SIGTERM);
    EXPECT_TRUE(running.says_error("process 1 has left after a signal")) << running.err();
    send(running, 0, SIGUSR1);
    ASSERT_TRUE(running.says_error("process 0 was asked by a signal")) << running.err();
    const auto began = std::chrono::steady_clock::now();
    running.signal(SIGTERM);
    EXPECT_EQ(running.wait(), 143);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(90)) << "without the grace time";
  }
}

TEST_F(ElasticLeaving, TheSignalOfTheFlightRecorderIsNoNotice) {
  Process running(training({"-n", "2", "--min-np", "1", "--max-restarts", "0"}, 2), around("USR1"));
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  send(running, 0, SIGUSR1);
  send(running, 1, SIGTERM);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_THAT(running.err(), HasSubstr("process 1 has left after a signal"));
  EXPECT_THAT(running.err(), ::testing::Not(HasSubstr("process 0 was asked by a signal")));
  EXPECT_EQ(results(running.out()), 1u) << running.out();
}

TEST_F(ElasticLeaving, ASignalToAllProcessesIsNoSuccess) {
  Process running(training({"-n", "2", "--min-np", "1", "--max-restarts", "0"}, 9), around());
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  for (int place = 0; place < 2; place++) send(running, place, SIGUSR1);
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), HasSubstr("were asked to leave: the state of the job is lost with them"));
}

TEST_F(ElasticLeaving, TheOnlyProcessThatHasTheStateStaysUntilAnotherOneHasIt) {
  const std::string trains_late_at_1 =
      text("[ $ANELLO_PLACE = 0 ] || sleep 1; exec ", TRAINEE, " ", kSteps, " 10 3");  // world 3 has only process 1
  Process running(anello({"run", "-n", "1", "--min-np", "1", "--max-np", "2", "--max-restarts", "0", "--", "sh", "-c",
                          trains_late_at_1}),
                  around());
  ASSERT_TRUE(running.says("[0] world 1: ")) << running.err();
  EXPECT_EQ(
      testing::run(anello({"resize", "--job", variable_of_process(process_at(running, 0), "ANELLO_JOB"), "2"})).code,
      0);
  send(running, 0, SIGTERM);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_THAT(running.err(), HasSubstr("process 0 has left after a signal"));
  EXPECT_THAT(running.out(), HasSubstr("[0] world 2: "));
  EXPECT_EQ(results(running.out()), 1u) << running.out();
}

TEST_F(ElasticLeaving, TheLauncherEndsProcessesAtOnce) {
  Process running(training({"-n", "2", "--min-np", "1", "--grace", "100"}, 9, 600000), around());
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  const auto began = std::chrono::steady_clock::now();
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(90)) << "without the grace time";
  EXPECT_THAT(running.err(), ::testing::Not(HasSubstr("asked by a signal")));
}

TEST_F(ElasticLeaving, AKilledKeeperIsTheLossOfItsHostAlsoIfNoProcessWasThere) {
  Process running(training({"-H", "h1:2,h2:1", "-n", "2", "--min-np", "1", "--max-np", "3"}, 99), around());
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  const std::vector<pid_t> agents = processes(running, "agent 1");
  for (const pid_t keeper : processes(running, "keeper: ends all")) {
    std::ifstream stat(text("/proc/", keeper, "/stat"));
    std::string number, name, state;
    pid_t parent = 0;
    stat >> number >> name >> state >> parent;
    if (std::ranges::count(agents, parent) > 0) ::kill(keeper, SIGKILL);
  }
  EXPECT_TRUE(running.says_error("host h2 cannot run its ranks: ")) << running.err();
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
}

TEST_F(ElasticLeaving, ChildrenInSessionsOfTheirOwnEndWithTheProcessOfTheirPlace) {
  // The numbers are in variables, so that the launcher's own command line has no such words.
  const std::string script =
      "n=301 m=302; if [ $ANELLO_RESTART = 0 ]; then setsid sh -c \"sleep $n; :\" & sleep 0.5; exit 3; fi; exec sleep "
      "$m";
  Process running(anello({"run", "-n", "1", "--min-np", "1", "--", "sh", "-c", script}), around());
  ASSERT_TRUE(running.says_error("process 0 is started again")) << running.err();
  EXPECT_TRUE(soon([&] { return processes(running, "sleep 301").empty(); }));
  EXPECT_TRUE(soon([&] { return !processes(running, "sleep 302").empty(); }));
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
  EXPECT_TRUE(running.none_left());
}

TEST_F(ElasticLeaving, AChildThatGetsItsEnvironmentAfterTheEndOfItsProcessEndsToo) {
  const std::string script =
      "n=303 P=$$; export P; if [ $ANELLO_RESTART = 0 ]; then setsid env -u ANELLO_PLACE sh -c \"while [ -d /proc/\\$P "
      "]; do sleep 0.01; done; sleep 0.1; ANELLO_PLACE=0 exec sleep $n\" & sleep 0.5; exit 3; fi; exec sleep 304";
  Process running(anello({"run", "-n", "1", "--min-np", "1", "--", "sh", "-c", script}), around());
  ASSERT_TRUE(running.says_error("process 0 is started again")) << running.err();
  EXPECT_TRUE(soon([&] { return processes(running, "sleep 303").empty(); }));
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
}

}  // namespace
}  // namespace anello::launch
