// Checks which process and thread call a group's functions. A child that fork() made must not call any function. A
// callback must not call a function that blocks. Any thread.
#pragma once
#include <functional>

#include "ring/base/process_mark.hpp"

namespace anello::group {

class CallerChecks {
 public:
  // Throws Error{invalid_argument} in a child that fork() made: the other ranks would take the child for its parent.
  void check_process() const;
  // Throws Error{invalid_argument} in a callback, because other threads may wait for the thread that runs the callback.
  static void check_no_callback();
  // Makes both of these checks.
  void check_may_wait() const;
  // Runs `call`. Until it returns, check_no_callback() throws on this thread.
  static void call_back(const std::function<void()>& call);
  bool in_child() const { return process_.in_child(); }

 private:
  ProcessMark process_;
};

}  // namespace anello::group
