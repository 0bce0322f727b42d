// What is known about a stalled operation, in words. Pure.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "ring/failure/control_message.hpp"
#include "ring/failure/local_view.hpp"

namespace anello::failure {

struct StallFindings {
  Call operation;
  std::string group;                    // its name, for people
  std::chrono::milliseconds period{0};  // nothing has moved for so long; 0: a rank refused its call
  std::vector<int> pair;                // of a transfer: the rank that sends and the one that receives
  std::map<int, StallAnswer> answers;   // by rank
  std::vector<int> silent;              // members that did not answer
  bool is_complete = false;             // every member answered

  // The lowest rank that did not call the operation; if all did, the lowest that did not answer; -1: neither.
  int culprit() const;
};

// "allreduce #7 (sum of 100 f32) has stalled for 60 s: rank 2 on host2 has not come, and called last barrier #6; ranks
// 0, 1, 3 wait". "allreduce #7 (sum of 100 f32) cannot go on: rank 2 on host2 refused its call: ...; rank 0 waits".
// First the ranks that are missing, so that they are there if the text is cut.
std::string describe(const LocalView& view, const StallFindings& findings);

}  // namespace anello::failure
