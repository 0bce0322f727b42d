// Hosts that cannot be used from the start, or from some moment on: messages name them, no process is left there, and a
// job may go on without them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "rendezvous/launch/agents/agent_task.hpp"
#include "rendezvous/launch/agents/heartbeat.hpp"
#include "rendezvous/launch/base/descriptor.hpp"
#include "tests/launch/agents.hpp"

namespace anello::launch {
namespace {

TEST_F(Agents, AHostThatCannotBeUsedIsNamedWithWhatSshSays) {
  const auto fails = [this](const std::string& hosts) {
    Process running(job(hosts, "echo started"), around());
    EXPECT_EQ(running.wait(), 1);
    EXPECT_EQ(running.out(), "") << "all or none";
    EXPECT_TRUE(running.none_left()) << "an agent that came too late ends by itself";
    return running.err();
  };
  const std::string down = fails("h1,down1");
  EXPECT_THAT(down, HasSubstr("host down1 cannot be used: `"));
  EXPECT_THAT(down, HasSubstr("` exited with status 255: ssh: connect to host down1 port 22: No route to host; `"));
  EXPECT_THAT(down, HasSubstr("ssh down1 true` must work without a password or a question\n"));
  EXPECT_THAT(fails("bare1,h1"),
              ::testing::ContainsRegex("host bare1 cannot be used.*not found; Anello must be there as /.* or in PATH"));
  const std::string stale = fails("stale1,h1");
  EXPECT_THAT(stale, HasSubstr("host stale1 cannot be used: "));
  EXPECT_THAT(stale, HasSubstr("this is Anello 0.0.1"));
}

TEST_F(Agents, AnotherVersionIsRefused) {
  const Outcome outcome = testing::run(anello({"agent", "0"}), {.input = "anello agent of version 0.0.0-other\n0\n"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("but `anello run` says: anello agent of version 0.0.0-other; install the same"));
  EXPECT_THAT(testing::run(anello({"agent", "0"}), {.input = ""}).err,
              HasSubstr("only `anello run` can start an agent"));
}

TEST_F(Agents, HostsThatDoNotAnswerAreNamedAtTheTimeLimit) {
  const auto says = [this](const std::string& hosts) {
    const Outcome outcome = testing::run(job(hosts, "echo started"), around({"ANELLO_START_TIMEOUT=300"}));
    EXPECT_EQ(outcome.code, 1);
    return outcome.err;
  };
  EXPECT_EQ(says("mute1"), "anello: host mute1 has not answered in time (ANELLO_START_TIMEOUT)\n");
  EXPECT_EQ(says("mute1,mute2"), "anello: hosts mute1 and mute2 have not answered in time (ANELLO_START_TIMEOUT)\n");
}

TEST_F(Agents, NothingIsLeftWhenTheLauncherIsKilled) {
  Process running(job("h1:2,h2", "echo up; setsid sleep 300 & exec sleep 300"), around());
  ASSERT_TRUE(running.says("[0] up") && running.says("[1] up") && running.says("[2] up")) << running.err();
  running.signal(SIGKILL);
  EXPECT_EQ(running.wait(), 137);
  EXPECT_TRUE(running.none_left());
}

TEST_F(Agents, AKilledSshEndsTheJobAndNamesTheHost) {
  Process running(job("h1,h2", "echo up; exec sleep 300"), around());
  ASSERT_TRUE(running.says("[0] up") && running.says("[1] up")) << running.err();
  const std::vector<pid_t> ssh = processes(running, "/ssh -x -T -o BatchMode=yes -o ConnectTimeout=20 h2");
  ASSERT_EQ(ssh.size(), 1u);
  kill(ssh[0], SIGKILL);
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), HasSubstr("host h2 was lost: `"));
  EXPECT_THAT(running.err(), HasSubstr("was killed by signal 9 (Killed)"));
  EXPECT_TRUE(running.none_left());
}

TEST_F(Agents, AKilledAgentEndsTheJobAndNamesTheHost) {
  Process running(job("h1,h2", "echo up; exec sleep 300"), around());
  ASSERT_TRUE(running.says("[0] up") && running.says("[1] up")) << running.err();
  for (const pid_t agent : processes(running, "/anello agent 0"))
    if (std::filesystem::path(bytes_of(text("/proc/", agent, "/comm"))) == "anello\n") kill(agent, SIGKILL);
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), HasSubstr("host h1 was lost: "));
  EXPECT_TRUE(running.none_left());
}

class StoppedAgent : public Agents {
 protected:
  // Stops the agent of h2.
  static void stop_agent(const Process& running) {
    int stopped = 0;
    for (const pid_t agent : processes(running, "/anello agent 1")) {
      if (bytes_of(text("/proc/", agent, "/comm")) != "anello\n") continue;
      kill(agent, SIGSTOP);
      stopped += testing::in_state(agent, 'T');
    }
    ASSERT_EQ(stopped, 1);
  }
  static inline const std::string kRanks =
      "echo up; setsid sleep 300 & [ $ANELLO_RANK = 0 ] || exec sleep 300; read go";
};

TEST_F(StoppedAgent, LeavesNothingWhenTheLauncherIsKilled) {
  Process running(job("h1,h2", kRanks), around());
  ASSERT_TRUE(running.says("[0] up") && running.says("[1] up")) << running.err();
  stop_agent(running);
  running.signal(SIGKILL);
  EXPECT_EQ(running.wait(), 137);
  EXPECT_TRUE(running.none_left());
}

TEST_F(StoppedAgent, IsALostHost) {
  Process running(job("h1,h2", kRanks), around({"ANELLO_SILENCE_LIMIT=4000"}));
  ASSERT_TRUE(running.says("[0] up") && running.says("[1] up")) << running.err();
  stop_agent(running);
  running.type("go\n");
  EXPECT_EQ(running.wait(), 1);
  EXPECT_THAT(running.err(), HasSubstr("host h2 was lost: its agent has not answered for 4 s (ANELLO_SILENCE_LIMIT), "
                                       "as if stopped (SIGSTOP)\n"));
  EXPECT_TRUE(running.none_left());
}

TEST(AgentHeartbeat, CountsItsQuestionsAndNotTheTimeOfAStoppedLauncher) {
  using std::chrono::seconds;
  Heartbeat heartbeat(seconds(5));
  Heartbeat::Time now{seconds(1000)};
  const auto beats = [&](int count) {
    for (int i = 0; i < count; i++) {
      heartbeat.asks(now);
      now = heartbeat.next();
    }
  };
  EXPECT_TRUE(heartbeat.asks(now));
  EXPECT_FALSE(heartbeat.asks(now)) << "too soon";
  now += seconds(100);
  EXPECT_FALSE(heartbeat.asks(now)) << "a question waits for its answer";
  EXPECT_FALSE(heartbeat.silent()) << "this process was stopped";
  heartbeat.answered();
  now = heartbeat.next();
  EXPECT_TRUE(heartbeat.asks(now));
  beats(11);
  EXPECT_FALSE(heartbeat.silent());
  beats(1);
  EXPECT_TRUE(heartbeat.silent());
  heartbeat.answered();
  EXPECT_FALSE(heartbeat.silent());
}

TEST(AgentHeartbeat, HasNoLimitIfThatIsZero) {
  Heartbeat heartbeat{milliseconds(0)};
  for (int i = 0; i < 1000; i++) heartbeat.asks(heartbeat.next());
  EXPECT_FALSE(heartbeat.silent());
}

// A scheduler kills the processes of a cancelled step in any order. Here it kills each rank before its agent. The agent
// reports that no rank is left, and then cannot send the rest of the output. The launcher is stopped, and finds all
// this when it continues.
class CancelledHosts : public Agents {
 protected:
  void cancel(const Process& running, const std::string& hosts) const {
    running.signal(SIGSTOP);
    ASSERT_TRUE(testing::in_state(running.pid(), 'T'));
    for (const char host : hosts) scratch_.put(text("go", host), "");
    while (ranks_that_write(running).size() < hosts.size()) std::this_thread::sleep_for(milliseconds(1));
    for (const pid_t rank : ranks_that_write(running)) {
      ASSERT_TRUE(testing::in_state(rank, 'S'));
      const std::vector<pid_t> above = ancestors(rank);  // its keeper and its agent
      kill(rank, SIGKILL);
      while (testing::alive(above[0])) std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(milliseconds(100));
      kill(above[1], SIGKILL);
      while (testing::alive(above[1])) std::this_thread::sleep_for(milliseconds(1));
    }
    std::this_thread::sleep_for(milliseconds(100));  // each ssh ends after its agent
    running.signal(SIGCONT);
  }
  static std::vector<pid_t> ranks_that_write(const Process& running) {
    std::vector<pid_t> out = running.marked();
    std::erase_if(out, [](pid_t pid) { return bytes_of(text("/proc/", pid, "/comm")) != "head\n"; });
    return out;
  }
  static std::vector<pid_t> ancestors(pid_t process) {
    std::vector<pid_t> out;
    for (int i = 0; i < 2; i++) {
      const std::string status = bytes_of(text("/proc/", process, "/status"));
      out.push_back(process = std::stoi(status.substr(status.find("PPid:") + 5)));
    }
    return out;
  }
  std::string script() const {
    return "echo up; until [ -e " + (scratch_ / "go").string() + "${FAKE_HOST#h} ]; do sleep 0.01; done; " +
           "exec head -c 1000000 /dev/zero";
  }
};

TEST_F(CancelledHosts, AreNamedInsteadOfTheirRanks) {
  for (const std::string cancelled : {"1", "2", "12"}) {
    Process running(job("h1,h2", script()), around());
    ASSERT_TRUE(running.says("[0] up") && running.says("[1] up")) << running.err();
    cancel(running, cancelled);
    EXPECT_EQ(running.wait(), 1) << running.err();
    for (const char host : cancelled)
      EXPECT_THAT(running.err(), HasSubstr(text("host h", host, " was lost: `"))) << cancelled;
    EXPECT_THAT(running.err(), ::testing::Not(HasSubstr(" was killed by signal 9 (Killed) on "))) << cancelled;
    EXPECT_TRUE(running.none_left());
    for (const char host : cancelled) std::filesystem::remove(scratch_ / text("go", host));
  }
}

// Two ranks. One runs on h2, which is lost in the first attempt.
class LostHost : public Agents {
 protected:
  std::unique_ptr<Process> run_and_lose(const std::string& hosts) const {
    auto running = std::make_unique<Process>(
        job(hosts, "echo try $ANELLO_RESTART on $FAKE_HOST; [ $ANELLO_RESTART = 0 ] && exec sleep 300; :",
            {"-n", "2", "--restarts", "1"}),
        around());
    EXPECT_TRUE(running->says("[0] try 0 on h1\n") && running->says("[1] try 0 on h2\n")) << running->err();
    for (const pid_t ssh : processes(*running, "/ssh -x -T -o BatchMode=yes -o ConnectTimeout=20 h2"))
      kill(ssh, SIGKILL);
    return running;
  }
};

TEST_F(LostHost, TheJobIsStartedAgainOnTheOthers) {
  const auto running = run_and_lose("h1,h2,h3");
  EXPECT_EQ(running->wait(), 0) << running->err();
  EXPECT_THAT(running->err(), HasSubstr("restart 1 of 1 in 1 s without host h2\n"));
  EXPECT_THAT(running->out(), ::testing::AllOf(HasSubstr("[0] try 1 on h1\n"), HasSubstr("[1] try 1 on h3\n")));
}

TEST_F(LostHost, WhatTheOthersLackIsSaid) {
  const auto running = run_and_lose("h1,h2");
  EXPECT_EQ(running->wait(), 1);
  EXPECT_THAT(running->err(), HasSubstr("it is not started again without host h2: 2 ranks do not fit: there is 1 slot "
                                        "on 1 host (h1: 1)"));
}

TEST_F(LostHost, AHostThatCouldNotBeUsedFromTheFirstIsAMistake) {
  Process running(job("h1,down1,h3", "true", {"-n", "2", "--restarts", "3"}), around());
  EXPECT_EQ(running.wait(), 1);
  EXPECT_FALSE(contains(running.err(), "restart 1")) << running.err();
  EXPECT_TRUE(running.none_left());
}

TEST_F(Agents, AnAgentDoesNotWaitForItsTaskWithoutEnd) {
  const Pipe nothing_comes = make_pipe();
  try {
    read_task(nothing_comes.read.get(), milliseconds(50));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timed_out);
    EXPECT_THAT(error.what(), HasSubstr("no task has come for 0.05 s"));
  }
}

Descriptor connection_to(std::uint16_t port) {
  Descriptor out(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(out.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  return out;
}

std::ptrdiff_t descriptors_of(pid_t pid) {
  return std::distance(std::filesystem::directory_iterator(text("/proc/", pid, "/fd")), {});
}

// The strangers make more connections than the launcher has descriptors, unless it raises its limit. If it did not,
// each stranger's connection would delay agents until an older connection is closed.
TEST_F(Agents, ManyStrangersAreHeldBesideTheAgents) {
  const auto task = scratch_ / "task";
  Words words = {"/bin/sh", "-c", "ulimit -Sn 64; exec \"$@\"", "sh"};
  for (const std::string& word : job("late1", "echo started")) words.push_back(word);
  Process running(words, around({"FAKE_TASK=" + task.string()}));
  while (!std::filesystem::exists(task)) std::this_thread::sleep_for(milliseconds(10));
  const Descriptor file(open(task.c_str(), O_RDONLY | O_CLOEXEC));
  const std::uint16_t port = read_task(file.get(), testing::kLong).port;
  set_open_files_limit(open_files_limit().max);
  std::vector<Descriptor> strangers;
  const auto deadline = std::chrono::steady_clock::now() + testing::kLong;
  while (descriptors_of(running.pid()) < 200 && std::chrono::steady_clock::now() < deadline) {
    strangers.push_back(connection_to(port));
    if (strangers.size() > 200) std::this_thread::sleep_for(milliseconds(10));  // the first may be closed by now
  }
  EXPECT_GE(descriptors_of(running.pid()), 200);
  scratch_.put("task.go", "");
  EXPECT_EQ(running.wait(), 0) << running.err();
}

TEST_F(Agents, ASignalEndsTheWaitForAgents) {
  Process running(job("mute1", "true"), around());
  while (processes(running, "sleep 300").empty()) std::this_thread::sleep_for(milliseconds(10));
  running.signal(SIGTERM);
  EXPECT_EQ(running.wait(), 143);
}

}  // namespace
}  // namespace anello::launch
