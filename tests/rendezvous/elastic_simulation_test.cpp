#include "tests/rendezvous/elastic_simulation.hpp"

#include <gtest/gtest.h>

#include "tests/support/random.hpp"

namespace anello::rendezvous {
namespace {

using Options = ElasticSimulation::Options;

struct Totals {
  int finished = 0, lost = 0, successions = 0;
  std::size_t generations = 0, events = 0, batches = 0;
};

// Plain runs test the jobs with all seeds. Sanitizers examine the code, for which a part of the seeds is enough.
void simulate(Options options, std::uint64_t seeds, Totals& totals) {
  for (std::uint64_t seed = 1; seed <= seeds / kSlowdown; seed++) {
    options.seed = seed * 1'000'003 + std::uint64_t(options.first);
    ElasticSimulation simulation(options);
    simulation.run();
    ASSERT_EQ(simulation.violation(), "") << simulation.script();
    totals.finished += simulation.finished();
    totals.lost += simulation.lost();
    totals.successions += simulation.successions();
    totals.generations += simulation.generations();
    totals.events += simulation.events_done();
    totals.batches += simulation.batches_joined();
  }
}

// Most jobs must finish, and a number of jobs must lose their state; otherwise the simulation would show little.
TEST(ElasticSimulation, EveryJobFinishesOrSaysThatItsStateIsLost) {
  Totals totals;
  for (const int first : {2, 3, 4, 5, 8, 16})
    simulate({.first = first, .min = 1, .max = first + 2, .steps = 150, .events = 2 * first}, 200, totals);
  EXPECT_GT(totals.finished, 700 / kSlowdown);
  EXPECT_GT(totals.lost, 10 / kSlowdown);
  EXPECT_GT(totals.generations, 4000u / kSlowdown);
  EXPECT_GT(totals.events, 5000u / kSlowdown);
}

// Processes are also killed while some ranks have passed a barrier and others have not, and while a state is sent. If a
// half-received state counted as a state, six of these jobs would end with such a state.
TEST(ElasticSimulation, NoStepIsLostOrRepeatedByDeathsAtTheWorstMoments) {
  Totals totals;
  simulate({.first = 4, .min = 1, .max = 6, .steps = 150, .events = 8, .sabotage = 4}, 1200, totals);
  simulate({.first = 8, .min = 2, .max = 10, .steps = 150, .events = 16, .sabotage = 2}, 300, totals);
  EXPECT_GT(totals.finished, 1300 / kSlowdown);
  EXPECT_GT(totals.generations, 6000u / kSlowdown);
}

TEST(ElasticSimulation, AJobWithAMinimumWaitsForNewcomers) {
  Totals totals;
  for (const int first : {2, 4, 6})
    simulate({.first = first, .min = first, .max = first, .steps = 150, .events = 3}, 200, totals);
  EXPECT_GT(totals.finished, 300 / kSlowdown);
}

// Jobs whose server ends. A job of `first` processes may have two more.
Options with_mortal_server(int first, int events) {
  return {.first = first, .min = 1, .max = first + 2, .steps = 150, .events = events, .server_dies = true};
}
void expect_successions(const Totals& totals, int least) {
  EXPECT_GT(totals.finished, least / kSlowdown);
  EXPECT_GT(totals.successions, least / kSlowdown);
}

// The server ends while processes are killed, stopped and cut off from each other. Its successors end in the same way.
TEST(ElasticSimulation, AfterTheEndOfTheServerNoTwoWorldsGoOn) {
  Totals totals;
  for (const int first : {2, 3, 4, 5, 8}) simulate(with_mortal_server(first, 2 * first), 200, totals);
  Options sabotaged = with_mortal_server(4, 8);
  sabotaged.sabotage = 4;
  simulate(sabotaged, 600, totals);
  expect_successions(totals, 200);
}

// When the server ends, some ranks have a new world with many newcomers, and other ranks have the last world. If only
// the new world counted for a majority, two groups would go on in several of these jobs.
TEST(ElasticSimulation, AServerThatEndsWhileItStartsAWorldLeavesOneGroup) {
  Totals totals;
  for (const int first : {3, 5}) {
    Options options = with_mortal_server(first, 0);
    options.max = 2 * first;
    options.server_dies_at_start = true;
    simulate(options, 600, totals);
  }
  expect_successions(totals, 400);
}

// On one host, a process can be certain that others have ended, so it may go on alone. A process that was stopped must
// not do so. If processes ignored that they were stopped, some would go on alone in several of the jobs with long
// stops.
TEST(ElasticSimulation, AProcessThatWasStoppedDoesNotGoOnAfterTheOthers) {
  Totals totals;
  for (const int first : {2, 3, 4}) {
    Options options = with_mortal_server(first, 2 * first);
    options.one_host = true;
    simulate(options, 300, totals);
  }
  for (const int events : {1, 2}) {
    Options options = with_mortal_server(3, events);
    options.one_host = options.long_stops = true;
    simulate(options, 300, totals);
  }
  expect_successions(totals, 120);
}

// Processes are asked to leave at any time, including the process that is the server.
TEST(ElasticSimulation, ASuccessorThatIsAskedToLeaveHandsOver) {
  Totals totals;
  for (const int first : {2, 3, 4, 5, 8})
    for (const bool one_host : {false, true}) {
      Options options = with_mortal_server(first, 2 * first);
      options.notices = true;
      options.one_host = one_host;
      simulate(options, 150, totals);
      options.sabotage = 4;
      simulate(options, 150, totals);
    }
  expect_successions(totals, 200);
}

// As long as there are other processes, they get the state before the last process that has it leaves.
TEST(ElasticSimulation, ProcessesThatAreAskedToLeaveDoNotTakeTheStateAway) {
  Totals totals;
  for (const int first : {1, 2, 3})
    simulate({.first = first, .min = 1, .max = 6, .steps = 150, .events = 8, .notices = true}, 400, totals);
  simulate({.first = 3, .min = 2, .max = 6, .steps = 300, .events = 8, .batches = 2, .notices = true}, 200, totals);
  EXPECT_GT(totals.finished, 1200 / kSlowdown);
  EXPECT_GT(totals.generations, 3500u / kSlowdown);
  EXPECT_GT(totals.batches, 200u / kSlowdown);
}

TEST(ElasticSimulation, WithSlowRoundTripsTheSearchForASuccessorEnds) {
  Totals totals;
  for (const int first : {2, 3, 4}) {
    Options options = with_mortal_server(first, first);
    options.one_host = options.is_slow = true;
    simulate(options, 100, totals);
  }
  expect_successions(totals, 24);
}

// Processes that a launcher starts together join in the course of 20 s. Some end before they join, and some never join.
TEST(ElasticSimulation, ProcessesThatAreStartedTogetherGoInByOneChange) {
  Totals totals;
  simulate({.first = 3, .min = 1, .max = 20, .steps = 1500, .events = 0, .batches = 3}, 20, totals);
  EXPECT_EQ(totals.finished, 20 / kSlowdown);
  EXPECT_GT(totals.batches, 30u / kSlowdown);
  EXPECT_EQ(totals.generations, totals.finished + totals.batches);
}

TEST(ElasticSimulation, ALauncherThatStartsProcessesEndangersNothing) {
  Totals totals;
  simulate({.first = 4, .min = 2, .max = 7, .steps = 600, .events = 30, .batches = 3, .sabotage = 1}, 100, totals);
  EXPECT_GT(totals.finished, 60 / kSlowdown);
  EXPECT_GT(totals.batches, 100u / kSlowdown);
}

TEST(ElasticSimulation, WithoutEventsThereIsOneWorld) {
  Totals totals;
  simulate({.first = 4, .min = 2, .max = 4, .events = 0}, 50, totals);
  EXPECT_EQ(totals.finished, 50 / kSlowdown);
  EXPECT_EQ(totals.generations, 50u / kSlowdown);
}

}  // namespace
}  // namespace anello::rendezvous
