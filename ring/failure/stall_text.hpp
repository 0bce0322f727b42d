// Describes the findings about a stalled operation in words. Pure.
#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "ring/failure/control_message.hpp"
#include "ring/failure/local_view.hpp"

namespace anello::failure {

struct StallFindings {
  NamedSignature operation;
  std::string group;                    // name of the group
  std::chrono::milliseconds period{0};  // for how long nothing has moved; 0: a rank refused its call
  std::vector<int> pair;                // a transfer's sender and receiver
  std::map<int, StallAnswer> answers;   // by rank
  std::vector<int> silent;              // members that did not answer
  bool is_complete = false;             // every member answered

  // Returns the lowest rank that did not call the operation. If all ranks called it, returns the lowest rank that did
  // not answer; -1 if all answered.
  int culprit() const;
};

// Returns a text such as "allreduce #7 (sum of 100 f32) has stalled for 60 s: rank 2 on host2 has not come, and called
// last barrier #6; ranks 0, 1, 3 wait", or "allreduce #7 (sum of 100 f32) cannot go on: rank 2 on host2 refused its
// call: ...; rank 0 waits". The missing ranks come first, so that they remain if the text is cut.
std::string describe(const LocalView& view, const StallFindings& findings);

}  // namespace anello::failure
