// The cluster of tests/cluster/cluster.sh, as its tests see it: commands on its hosts, what runs there, and what a
// training there must end with. For a test of one thread.
#pragma once
#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ring/base/descriptor.hpp"
#include "tests/support/process.hpp"

namespace anello::cluster {

// Runs `script` by bash on host h0, h1 or h2 to its end; "anello" and "anello-train" are on its PATH.
testing::Outcome on(int host, const std::string& script, testing::Surroundings surroundings = {});
std::unique_ptr<testing::Process> start(int host, const std::string& script, testing::Surroundings surroundings = {});

// Waits for its end.
testing::Outcome end_of(testing::Process& job);

// A training of a second on the digits; results do not depend on how ranks are distributed (ANELLO_REPRODUCIBLE).
inline const std::string kTrain = "anello-train --epochs 2";
inline const std::string kTrainLong = "anello-train --epochs 1000000";

std::string in_tree(const std::string& path);  // a file of this project
// One of the project's recipes (trainer/recipes).
std::string recipe(const std::string& name);

// The output is that of one training on six ranks, with the result of a local one.
void expect_result(const testing::Outcome& outcome, const std::string& options = "");
// Also, nothing is left on any host.
void expect_trained(const testing::Outcome& outcome, const std::string& options = "");
// The same of a training on one rank, `times` times.
void expect_alone(const testing::Outcome& outcome, int times = 1);

// Living processes on all hosts that run this program.
std::vector<pid_t> processes(const std::string& program);
// Waits until this holds; false if it takes very long.
bool eventually(const std::function<bool()>& condition);
// Waits until there are none; fails the test if it takes very long.
void expect_gone(const std::string& program);
// The names of the processes above this one.
std::vector<std::string> ancestors(pid_t process);

// Grid Engine on the hosts; ". ./.gridengine" is for its commands. At most once a program.
void start_grid_engine();

// A socket that has taken this port of all addresses of the host. If it listens, connections are made, and it is mute.
Descriptor occupy(int host, int port, bool listens);

// The host's network cable is pulled, until this object is destroyed; Slurm and the other hosts know it again then.
class Unplugged {
 public:
  explicit Unplugged(int host);
  ~Unplugged();
  Unplugged(const Unplugged&) = delete;
  Unplugged& operator=(const Unplugged&) = delete;

 private:
  const int host_;
};

}  // namespace anello::cluster
