// The server of an elastic job ends, and one of its processes goes on as the server.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <anello/elastic.hpp>
#include <thread>

#include "rendezvous/client/own_join.hpp"
#include "rendezvous/client/standing_connection.hpp"
#include "rendezvous/protocol/lineage.hpp"
#include "tests/rendezvous/elastic_jobs.hpp"
#include "tests/rendezvous/joining.hpp"
#include "tests/support/free_ports.hpp"

namespace anello {
namespace {

constexpr ElasticLimits kLimits{.min = 1, .max = 5, .first = 3, .may_be_succeeded = true};

class ElasticSuccession : public ElasticJob {
 protected:
  static bool was(const std::unique_ptr<testing::Process>& process, int rank, int size) {
    return process && process->out().find(text("rank ", rank, " of ", size, " at ")) != std::string::npos;
  }
  testing::Process& rank(int rank, int size) {
    return **std::ranges::find_if(processes_, [=](const auto& process) { return was(process, rank, size); });
  }
  void kill_rank(int rank, int size) {
    for (auto& process : processes_)
      if (was(process, rank, size)) {
        kill(*process);
        return process.reset();
      }
    FAIL() << "there is no rank " << rank;
  }
  void expect_results() {
    for (auto& process : processes_)
      if (process) expect_result(*process, kLongTraining);
  }
  static std::size_t count(const std::string& all, const std::string& part) {
    std::size_t times = 0;
    for (std::size_t at = 0; (at = all.find(part, at)) != std::string::npos; at += part.size()) times++;
    return times;
  }
  // A job of three processes, the first of which has gone on as the server.
  void succeed() {
    serve({.min = 1, .max = 5, .first = 4, .silence = milliseconds(silence_ms_), .may_be_succeeded = true});
    start_all(4, kLongTraining, 5);
    server_.reset();
    kill_rank(3, 4);
    std::erase(processes_, nullptr);
    for (auto& process : processes_) ASSERT_TRUE(process->says("world 2: ")) << process->err();
  }
  // A job in this process.
  Settings settings() const {
    Settings settings = Settings::from_environment();
    settings.rendezvous = text("127.0.0.1:", port_);
    settings.flight_dir = "none";
    return settings;
  }
  static int listeners() {
    int count = 0;
    for (int each = 0; each < 1024; each++) {
      int listens = 0;
      socklen_t size = sizeof listens;
      count += getsockopt(each, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
    }
    return count;
  }
  std::string errors() const {
    std::string all;
    for (const auto& process : processes_) all += process ? process->err() : "";
    return all;
  }
};

// The test ends the server, and a rank: either rank 0, which would have been the successor, or another rank.
TEST_F(ElasticSuccession, TheOthersGoOnWhenTheServerAndARankEnd) {
  for (const int victim : {0, 1}) {
    serve(kLimits);
    start_all(3, kLongTraining, 2);
    server_.reset();
    kill_rank(victim, 3);
    expect_results();
    EXPECT_THAT(errors(), AllOf(HasSubstr("goes on as the rendezvous server of the job"),
                                HasSubstr(text("left: rank ", victim, " (127.0.0.1 pid "))));
  }
}

TEST_F(ElasticSuccession, ASuccessorIsSucceededUntilOneProcessIsLeft) {
  serve(kLimits);
  start_all(3, kLongTraining, 3);
  server_.reset();
  kill_rank(0, 3);
  for (auto& process : processes_) {
    if (!process) continue;
    ASSERT_TRUE(process->says("world 2: ")) << process->err();
  }
  kill_rank(0, 2);
  expect_results();
  EXPECT_THAT(errors(), HasSubstr("world 3 has 1 rank and goes on after commit "));
}

TEST_F(ElasticSuccession, ASignalOfASchedulerReachesTheSuccessor) {
  serve({.min = 1, .max = 5, .first = 4, .may_be_succeeded = true});
  start_all(4, kLongTraining, 4);
  server_.reset();
  testing::Process& early = rank(1, 4);
  early.signal(SIGUSR1);
  ASSERT_TRUE(early.says_error("asks this process to leave its job")) << early.err();
  kill_rank(3, 4);
  EXPECT_EQ(early.wait(), 0) << early.err();
  EXPECT_THAT(early.out(), AllOf(HasSubstr("world 2: "), HasSubstr("the others have finished")));
  for (auto& process : processes_) ASSERT_TRUE(!process || process.get() == &early || process->says("world 3: "));
  testing::Process& late = rank(1, 2);
  late.signal(SIGTERM);
  EXPECT_EQ(late.wait(), 0) << late.err();
  EXPECT_THAT(late.out(), HasSubstr("the others have finished"));
  for (auto& process : processes_)
    if (process && process.get() != &early && process.get() != &late) expect_result(*process, kLongTraining);
}

// Another process becomes the next server. All processes go to it before the old server leaves.
TEST_F(ElasticSuccession, ASuccessorThatIsAskedToLeaveHandsOver) {
  ASSERT_NO_FATAL_FAILURE(succeed());
  testing::Process& server = rank(0, 3);
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.err();
  EXPECT_THAT(server.out(), AllOf(HasSubstr("the others have finished"), Not(HasSubstr("world 3: "))));
  EXPECT_THAT(server.err(), HasSubstr("goes on as the rendezvous server until another process has taken over"));
  for (auto& process : processes_) {
    if (process.get() == &server) continue;
    ASSERT_TRUE(process->says("world 4: ")) << process->err();
    EXPECT_EQ(count(process->err(), "the rendezvous server has ended"), 1u) << process->err();
    EXPECT_THAT(process->err(), Not(HasSubstr("the connection with the rendezvous has ended")));
  }
  EXPECT_EQ(count(errors(), "goes on as the rendezvous server of the job"), 2u) << errors();
  testing::Process& next = rank(0, 2);
  next.signal(SIGUSR1);
  EXPECT_EQ(next.wait(), 0) << next.err();
  for (auto& process : processes_)
    if (process.get() != &server && process.get() != &next) expect_result(*process, kLongTraining);
}

// The successor stands still for longer than the limit of silence, while the other processes wait at it for the next
// world.
TEST_F(ElasticSuccession, ASuccessorThatStandsStillForAWhileIsAwaited) {
  silence_ms_ = 3000;
  ASSERT_NO_FATAL_FAILURE(succeed());
  testing::Process& server = rank(0, 3);
  server.signal(SIGSTOP);
  std::this_thread::sleep_for(milliseconds(4 * silence_ms_));
  server.signal(SIGCONT);
  for (auto& process : processes_) ASSERT_TRUE(process->says("world 3: ")) << process->out() << process->err();
  kill_rank(1, 3);
  for (auto& process : processes_) ASSERT_TRUE(!process || process->says("world 4: ")) << process->err();
  kill_rank(0, 2);
  expect_results();
}

// The server and the other process end, so this process is its own successor.
TEST_F(ElasticSuccession, AnotherThreadMayAskForAChangeWhileTheServerIsReplaced) {
  serve({.min = 1, .max = 5, .first = 2, .may_be_succeeded = true});
  testing::Process& other = start(kLongTraining, 1);
  std::vector<double> weights(kWeights);
  elastic::State state;
  state.add("weights", std::as_writable_bytes(std::span(weights)));
  elastic::Job job(state, {}, settings());
  ASSERT_TRUE(job.next());
  std::jthread asks([&](const std::stop_token& over) {
    while (!over.stop_requested()) job.change_is_planned();
  });
  server_.reset();
  kill(other);
  EXPECT_TRUE(job.next());
  asks.request_stop();
  asks.join();
  EXPECT_EQ(job.change().size, 1);
  job.finish();
}

// If the process still listened, other processes could find it at its address, and wait for it.
TEST_F(ElasticSuccession, AProcessWhosePartHasEndedListensNoMore) {
  serve({.min = 1, .max = 5, .first = 1, .may_be_succeeded = true});
  std::vector<double> weights(kWeights);
  elastic::State state;
  state.add("weights", std::as_writable_bytes(std::span(weights)));
  const int before = listeners();
  elastic::Job job(state, {}, settings());
  ASSERT_TRUE(job.next());
  EXPECT_GT(listeners(), before);
  job.finish();
  EXPECT_EQ(listeners(), before);
  struct sigaction action {};
  sigaction(SIGTERM, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

TEST_F(ElasticSuccession, NewcomersJoinAtTheAddressOfTheSuccessor) {
  serve(kLimits);
  start_all(3, kLongTraining, 3);
  server_.reset();
  kill_rank(2, 3);
  std::string words;
  for (auto& process : processes_) {
    if (!process) continue;
    ASSERT_TRUE(process->says("world 2: ")) << process->err();
    words += process->err();
  }
  const std::string key = "ANELLO_RENDEZVOUS=127.0.0.1:";
  const std::size_t at = words.find(key);
  ASSERT_NE(at, std::string::npos) << words;
  port_ = std::uint16_t(std::stoi(words.substr(at + key.size())));
  const testing::Process& newcomer = start(kLongTraining, 3);
  expect_results();
  EXPECT_THAT(newcomer.out(), HasSubstr("world 3: rank 2 of 3 at "));
}

// A server in this process, which is rank 0 of two in the newest world.
class Successor : public ::testing::Test {
 protected:
  static ServerOptions options() {
    ServerOptions options;
    options.elastic = kLimits;
    options.heir = true;
    return options;
  }
  void world(std::uint32_t number) {
    rendezvous::Lineage lineage;
    lineage.starts({.generation = number, .rank = 0},
                   {{"127.0.0.1", server_.port(), 1}, {"127.0.0.1", server_.port(), 2}}, {}, {});
    server_.inherit(lineage, kLimits, number, true);
  }
  std::size_t processes() { return server_.elastic_status().processes.size(); }

  RendezvousServer server_{options()};
};

// A newcomer may have the variable ANELLO_RANK or RANK. A successor waits only for processes of its own last world.
TEST_F(Successor, GivesANewcomerNoRankOfTheLastWorld) {
  world(1);
  server_.succeed();
  const rendezvous::StandingConnection newcomer(joining(server_.port(), -1, 1), "");
  ASSERT_TRUE(eventually([&] { return processes() == 1; }));
  EXPECT_EQ(server_.elastic_status().processes.front().rank, -1);
}

TEST_F(Successor, TakesNoProcessInWhoseWorldHasEndedSinceItsHandshake) {
  const Settings settings = joining(server_.port(), -1, 1);
  rendezvous::Join join = rendezvous::join_of_this_process(settings, "127.0.0.1");
  join.elastic = true;
  for (const std::uint32_t newest : {1, 2}) {
    world(1);
    server_.succeed();
    {
      rendezvous::ServerConnection late(settings, {settings.job, ""}, {.where = "rank 0", .rank = 0, .generation = 1});
      late.connect(std::chrono::steady_clock::now() + kPatience);
      world(newest);
      late.send(join);
      EXPECT_TRUE(eventually([&] { return newest == 1 ? processes() == 1 : !late.is_intact(); }));
      EXPECT_EQ(processes(), newest == 1 ? 1u : 0u);
    }
    ASSERT_TRUE(eventually([&] { return processes() == 0; }));
  }
}

// On one host, a rank that was stopped can be certain that the others have ended. But it cannot find out whether they
// had gone on before.
TEST_F(ElasticSuccession, AStoppedRankDoesNotGoOnAfterTheOthersHaveFinished) {
  silence_ms_ = 3000;
  ElasticLimits limits = kLimits;
  limits.silence = milliseconds(silence_ms_);
  serve(limits);
  start_all(3, kLongTraining, 2);
  server_.reset();
  testing::Process& stopped = rank(2, 3);
  stopped.signal(SIGSTOP);
  for (auto& process : processes_)
    if (process.get() != &stopped) expect_result(*process, kLongTraining);
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.wait(), 1) << stopped.out();
  EXPECT_THAT(stopped.out(), ::testing::Not(HasSubstr("\nweights ")));
  EXPECT_THAT(stopped.err(), HasSubstr("more than half"));
}

// A successor needs a second port, so a range with one port for each rank is not enough.
TEST_F(ElasticSuccession, ARangeWithOnePortForEachRankLeavesNoneForASuccessor) {
  const std::uint16_t first = consecutive_free_ports(3);
  further_environment_ = {text("ANELLO_PORT_RANGE=", first, "-", first + 2)};
  serve(kLimits);
  start_all(3, 50, 2);
  for (auto& process : processes_) expect_result(*process, 50);
  EXPECT_THAT(errors(), HasSubstr(text("ANELLO_PORT_RANGE='", first, "-", first + 2,
                                       "' has 3 ports for 3 ranks of this host; give it 6 or more")));
}

TEST_F(ElasticSuccession, ASuccessorServesToTheEndIfNoOtherRankListens) {
  constexpr int kSteps = 600, kNever = 99;
  const std::uint16_t first = consecutive_free_ports(2);
  further_environment_ = {text("ANELLO_PORT_RANGE=", first, "-", first + 1)};
  serve({.min = 1, .max = 5, .first = 4, .may_be_succeeded = true});
  for (int i = 0; i < 4; i++) {
    if (i == 2) further_environment_.clear();
    start(kSteps, kNever);
  }
  for (auto& process : processes_) ASSERT_TRUE(process->says("world 1: "));
  server_.reset();
  kill(*processes_[2]);
  processes_.erase(processes_.begin() + 2);
  for (auto& process : processes_) ASSERT_TRUE(process->says("world 2: ")) << process->err();
  processes_[2]->signal(SIGTERM);
  for (const int other : {0, 1}) expect_result(*processes_[std::size_t(other)], kSteps);
  EXPECT_EQ(processes_[2]->wait(), 0) << processes_[2]->err();
  EXPECT_THAT(processes_[2]->err(), HasSubstr("until the others, which do not listen, have finished"));
}

TEST_F(ElasticSuccession, AnUndisturbedJobEndsWithoutItsServer) {
  serve(kLimits);
  start_all(3, 50, 2);
  server_.reset();
  for (auto& process : processes_) {
    expect_result(*process, 50);
    EXPECT_THAT(process->out(), ::testing::Not(HasSubstr("world 2")));
  }
}

}  // namespace
}  // namespace anello
