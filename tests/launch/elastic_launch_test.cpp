// Elastic jobs that `anello run` starts: processes that end are replaced, and the result is that of an undisturbed
// training.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>

#include "rendezvous/launch/run/job_requests.hpp"
#include "ring/base/text.hpp"
#include "ring/shm/fd_message.hpp"
#include "tests/launch/agents.hpp"
#include "tests/rendezvous/trainee.hpp"

namespace anello::launch {
namespace {

using Clock = std::chrono::steady_clock;
using ::testing::ContainsRegex;

constexpr int kSteps = 4000;  // each takes 10 ms until the job is disturbed

class ElasticLaunch : public Agents {
 protected:
  // Each step takes 10 ms until the world `fast_from` has begun, and then next to nothing.
  static Words job(Words options, int fast_from) {
    Words words = {"run"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", TRAINEE, std::to_string(kSteps), "10", std::to_string(fast_from)});
    return anello(words);
  }
  Surroundings around(Words more = {}) const {
    more.push_back("ANELLO_FLIGHT_DIR=none");
    return Agents::around(std::move(more));
  }
  static std::string own_job(Process& launcher) { return variable_of_process(at(launcher, 0), "ANELLO_JOB"); }
  // The agent is the parent of the keeper, which is the parent of the process.
  static pid_t agent_of(Process& launcher, pid_t process) {
    const auto parent = [](pid_t pid) {
      std::ifstream stat(text("/proc/", pid, "/stat"));
      std::string number, name, state;
      pid_t out = -1;
      stat >> number >> name >> state >> out;
      return out;
    };
    EXPECT_TRUE(std::ranges::count(launcher.marked(), process));
    return parent(parent(process));
  }
  static std::string result() {
    return text("weights ", std::uint64_t(trainee::expected(100, kSteps)), " at ", kSteps, "\n");
  }
  // Returns the process at this place. If there is none, fails the test, and returns a number that no process has.
  static pid_t at(Process& launcher, int place) {
    const pid_t pid = process_at(launcher, place);
    EXPECT_GT(pid, 0) << "place " << place << " has no process";
    return pid > 0 ? pid : 0x7fffffff;
  }
};

TEST_F(ElasticLaunch, AKilledProcessIsReplaced) {
  for (const int victim : {0, 2}) {
    Process running(job({"-n", "3", "--min-np", "2"}, 3), around());
    for (int place = 0; place < 3; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
    ::kill(at(running, victim), SIGKILL);
    EXPECT_EQ(running.wait(), 0) << running.err();
    EXPECT_EQ(count(running.out(), result()), 3u) << running.out();
    EXPECT_THAT(running.err(), HasSubstr(text("process ", victim, " is started again (restart 1 of 10)\n")));
    EXPECT_THAT(running.out(), ContainsRegex(text("\\[", victim, "\\] world [0-9]+: rank 2 of 3 ")));
    EXPECT_TRUE(running.none_left());
  }
}

TEST_F(ElasticLaunch, RanksBeginInTheOrderOfTheirPlaces) {
  const Outcome outcome = testing::run(job({"-n", "4", "--min-np", "2"}, 1), around());
  for (int place = 0; place < 4; place++)
    EXPECT_THAT(outcome.out, HasSubstr(text("[", place, "] world 1: rank ", place, " of 4 ")));
}

TEST_F(ElasticLaunch, WithoutRestartsTheOthersFinish) {
  Process running(job({"-n", "3", "--min-np", "2", "--max-restarts", "0"}, 2), around());
  for (int place = 0; place < 3; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(at(running, 1), SIGKILL);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(count(running.out(), result()), 2u) << running.out();
}

TEST_F(ElasticLaunch, TooFewEndTheJob) {
  Process running(job({"-n", "2", "--min-np", "2", "--max-restarts", "0"}, 2), around());
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(at(running, 1), SIGKILL);
  EXPECT_EQ(running.wait(), 137);
  EXPECT_THAT(running.err(), HasSubstr("only 1 process runs or can be started, and --min-np is 2\n"));
  EXPECT_THAT(running.err(), ContainsRegex("the job failed after .* because of process 1"));
  EXPECT_TRUE(running.none_left());
}

TEST_F(ElasticLaunch, AStoppedProcessIsReplaced) {
  Process running(job({"-n", "3", "--min-np", "2"}, 3), around({"ANELLO_SILENCE_LIMIT=2000"}));
  for (int place = 0; place < 3; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(at(running, 1), SIGSTOP);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(count(running.out(), result()), 3u) << running.out();
  EXPECT_THAT(running.err(), HasSubstr("is stopped, and the next world waits for it, so it is killed\n"));
}

TEST_F(ElasticLaunch, AKilledProcessOfAnotherHostIsReplacedThere) {
  Process running(job({"-H", "h1:2,h2:2", "--min-np", "2"}, 3), around());
  for (int place = 0; place < 4; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(at(running, 2), SIGKILL);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(count(running.out(), result()), 4u) << running.out();
  EXPECT_THAT(running.err(), ContainsRegex("process 2 \\(pid [0-9]+\\) was killed by signal 9 \\(Killed\\) on h2\n"));
  EXPECT_TRUE(running.none_left());
}

TEST_F(ElasticLaunch, ALostHostIsLeftOut) {
  Process running(job({"-H", "h1:2,h2:2", "--min-np", "2"}, 2), around({"ANELLO_SILENCE_LIMIT=4000"}));
  for (int place = 0; place < 4; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(agent_of(running, at(running, 2)), SIGKILL);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(count(running.out(), result()), 2u) << running.out();
  EXPECT_TRUE(running.none_left());
}

TEST_F(ElasticLaunch, ASpareHostReplacesALostOne) {
  Process running(job({"-H", "h1:2,h2:2,h3:2", "-n", "4", "--min-np", "2", "--max-np", "6"}, 3),
                  around({"ANELLO_SILENCE_LIMIT=4000"}));
  for (int place = 0; place < 4; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(agent_of(running, at(running, 2)), SIGKILL);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_EQ(count(running.out(), result()), 4u) << running.out();
  EXPECT_THAT(running.err(), HasSubstr("process 5 is started instead (restart 2 of 10)\n"));
  EXPECT_TRUE(running.none_left());
}

TEST_F(ElasticLaunch, AJobIsResizedWhileItTrains) {
  Process running(job({"-n", "2", "--min-np", "1", "--max-np", "4"}, 4), around());
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  const auto ask = [&](Words words) {
    words.insert(words.begin() + 1, {"--job", own_job(running)});
    return testing::run(anello(std::move(words)));
  };
  EXPECT_EQ(ask({"resize", "4"}).out, "the job goes from 2 to 4 processes\n");
  ASSERT_TRUE(running.says("] world 2: rank 0 of 4 ") || running.says("] world 3: rank 0 of 4 ")) << running.err();
  const Outcome status = testing::run(anello({"status", own_job(running)}));
  EXPECT_THAT(status.out, HasSubstr(": 4 of 4 processes run (--min-np 1, at most 4), world "));
  EXPECT_THAT(ask({"resize", "9"}).err, HasSubstr("9"));
  EXPECT_EQ(ask({"remove", "1"}).out, "1 process leaves at the next commit\n");
  ASSERT_TRUE(running.says_error("process 1 has left, as it was asked to\n"));
  ::kill(at(running, 3), SIGKILL);
  EXPECT_EQ(running.wait(), 0) << running.err();
  EXPECT_GE(count(running.out(), result()), 2u) << running.out();  // process 3's successor may come too late
  EXPECT_THAT(running.out(), HasSubstr("[1] the others have finished\n"));
  EXPECT_THAT(testing::run(anello({"remove", "--job", "no-such-job", "1"})).err, HasSubstr("no-such-job"));
}

TEST_F(ElasticLaunch, AProgramThatFailsAtOnceIsNotRepeatedForEver) {
  const Outcome outcome =
      testing::run(anello({"run", "-n", "2", "--min-np", "1", "--", "sh", "-c", "echo up; exit 7"}), around());
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(count(outcome.out, "up\n"), 4u) << outcome.out;
  EXPECT_THAT(outcome.err, HasSubstr("because it has failed twice before it trained\n"));
}

TEST_F(ElasticLaunch, AProgramThatIsNotElasticIsNoSuccess) {
  const Outcome outcome = testing::run(anello({"run", "-n", "2", "--min-np", "1", "--", "true"}), around());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("none has finished a training"));
}

TEST_F(ElasticLaunch, ProcessesGetTheirPlacesAndNoRanks) {
  const Outcome outcome = testing::run(
      anello({"run", "-n", "2", "--max-np", "3", "--", "sh", "-c",
              "echo $ANELLO_PLACE $LOCAL_RANK $HOROVOD_ELASTIC $ANELLO_RESTART ${ANELLO_RANK-none} ${RANK-none}"}),
      around());
  EXPECT_THAT(outcome.out, HasSubstr("[1] 1 1 1 0 none none\n"));
}

TEST_F(ElasticLaunch, WrongOptionsAreNamed) {
  const struct {
    Words options;
    std::string part;
  } cases[] = {{{"-n", "2", "--min-np", "3"}, "--min-np (3) must be at most -n (2), and that at most --max-np (2)"},
               {{"-n", "4", "--min-np", "2", "--max-np", "3"}, "must be at most -n"},
               {{"-n", "2", "--max-restarts", "3"}, "--restarts N"},
               {{"-n", "2", "--on-failure", "host"}, "add --min-np N"},
               {{"-n", "2", "--min-np", "1", "--on-failure", "all"}, "place, host or job, not 'all'"},
               {{"-n", "2", "--min-np", "1", "--nnodes", "2"}, "write -H instead of --nnodes"}};
  for (const auto& [options, part] : cases) {
    Words words = {"run"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("true");
    const Outcome outcome = testing::run(anello(words), around());
    EXPECT_EQ(outcome.code, 2) << part;
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(testing::lines(outcome.err).size(), 1u) << outcome.err;
  }
}

TEST_F(ElasticLaunch, AHostThatIsDownAtTheStartIsLeftOut) {
  for (const char* hosts : {"h1:2,down2:2", "down1:2,h2:2"}) {
    const Outcome outcome = testing::run(job({"-H", hosts, "-n", "2", "--min-np", "2", "--max-np", "4"}, 1), around());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(count(outcome.out, result()), 2u) << outcome.out;
  }
}

TEST_F(ElasticLaunch, AMuteHostAtTheStartIsLeftOut) {
  const Outcome outcome = testing::run(job({"-H", "mute1:2,h2:2", "-n", "2", "--min-np", "2", "--max-np", "4"}, 1),
                                       around({"ANELLO_START_TIMEOUT=3000"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, result()), 2u) << outcome.out;
}

TEST_F(ElasticLaunch, TheLossOfAllHostsIsNamed) {
  Process running(job({"-H", "h1:2", "--min-np", "1"}, 2), around({"ANELLO_SILENCE_LIMIT=4000"}));
  for (int place = 0; place < 2; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(agent_of(running, at(running, 0)), SIGKILL);
  EXPECT_EQ(running.wait(), 1);
  // The launcher gives the second reason if it has not yet received that the training has begun.
  EXPECT_THAT(running.err(), AllOf(HasSubstr("host h1 was lost: "),
                                   AnyOf(HasSubstr("no process is left that had the state of the training\n"),
                                         HasSubstr("only 0 processes run or can be started, and --min-np is 1\n"))));
  EXPECT_TRUE(running.none_left());
}

TEST_F(ElasticLaunch, ARestartNeedsTheMinimum) {
  Process running(job({"-H", "h1:2,h2:2", "--min-np", "4", "--restarts", "1"}, 2),
                  around({"ANELLO_SILENCE_LIMIT=4000"}));
  for (int place = 0; place < 4; place++) ASSERT_TRUE(running.says(text("[", place, "] world 1: "))) << running.err();
  ::kill(agent_of(running, at(running, 2)), SIGKILL);
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), HasSubstr("it is not started again without host h2: only 2 processes can be started, and "
                                       "--min-np is 4\n"));
}

TEST_F(ElasticLaunch, ALineThatAProcessHasNotEndedIsNotContinuedByTheNextOne) {
  const std::string script = "if [ $ANELLO_RESTART = 0 ]; then printf half; exit 3; fi; echo whole; exit 3";
  for (const Words& where : {Words{"-n", "1"}, Words{"-H", "h1:1"}}) {
    Words words = {"run", "--min-np", "1"};
    words.insert(words.end(), where.begin(), where.end());
    words.insert(words.end(), {"--", "sh", "-c", script});
    EXPECT_EQ(testing::run(anello(words), around()).out, "[0] half\n[0] whole\n");
  }
}

// The launcher and its keeper send each other more than the channel between them holds.
TEST_F(ElasticLaunch, ManyProcessesStart) {
  const Outcome outcome =
      testing::run(anello({"run", "-n", "700", "--min-np", "1", "--max-restarts", "0", "--", "true"}), around());
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("none has finished a training"));
}

TEST_F(ElasticLaunch, ANameThatNoJobCanHaveIsUnknown) {
  EXPECT_THAT(testing::run(anello({"status", std::string(300, 'a')})).err, HasSubstr("no elastic job 'aaa"));
}

TEST(JobRequests, AreAnsweredWhileOthersConnect) {
  const std::string job = text("test-", getpid());
  JobRequests requests(job, [](const std::string& request) { return request + "!"; });
  const auto round = [&] {
    PollSet polls;
    requests.watch(polls);
    polls.until(Clock::now() + milliseconds(100));
    polls.wait();
  };
  const auto connect = [&] { return shm::connect_to(text("anello-job-", geteuid(), "-", job)); };
  const Descriptor first = connect();
  round();
  const Descriptor second = connect();
  ASSERT_EQ(send(first.get(), "one", 3, 0), 3);
  round();
  std::array<char, 16> answer{};
  EXPECT_EQ(recv(first.get(), answer.data(), answer.size(), MSG_DONTWAIT), 5);
  EXPECT_STREQ(answer.data(), "+one!");
}

}  // namespace
}  // namespace anello::launch
