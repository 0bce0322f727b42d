// The cluster of tests/cluster/cluster.sh: commands on its hosts, their processes, and the expected result of a
// training there. For a test of one thread.
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

// Waits until the job has ended.
testing::Outcome end_of(testing::Process& job);

// A training of a second on the digits; results do not depend on how ranks are distributed (ANELLO_REPRODUCIBLE).
inline const std::string kTrain = "anello-train --epochs 2";
inline const std::string kTrainLong = "anello-train --epochs 1000000";

std::string in_tree(const std::string& path);  // a file of this project
// One of the project's recipes (trainer/recipes).
std::string recipe(const std::string& name);

// Expects the output of one training on six ranks, with the result of a local training.
void expect_result(const testing::Outcome& outcome, const std::string& options = "");
// Expects the same, and that no process of the job is left on any host.
void expect_trained(const testing::Outcome& outcome, const std::string& options = "");
// Expects the output of `times` trainings, each on one rank.
void expect_alone(const testing::Outcome& outcome, int times = 1);

// Living processes on all hosts that run this program.
std::vector<pid_t> processes(const std::string& program);
// Waits until `condition` holds. Returns false if this takes very long.
bool eventually(const std::function<bool()>& condition);
// Waits until no process runs the program; fails the test if this takes very long.
void expect_gone(const std::string& program);
// The names of the ancestors of this process.
std::vector<std::string> ancestors(pid_t process);

// Starts Grid Engine on the hosts; ". ./.gridengine" makes its commands available. At most once in a program.
void start_grid_engine();

// Returns a socket that occupies this port on all addresses of the host. If it listens, it accepts connections and
// never answers.
Descriptor occupy(int host, int port, bool listens);

// Plugs the host's network cable in or out.
void plug(int host, bool in);

// Unplugs the host's network cable until this object is destroyed; afterwards waits until Slurm and the other hosts
// reach it.
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
