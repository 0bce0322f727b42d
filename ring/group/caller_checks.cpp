#include "ring/group/caller_checks.hpp"

#include <anello/error.hpp>
#include <utility>

namespace anello::group {
namespace {

thread_local bool in_callback = false;

}  // namespace

void CallerChecks::check_process() const {
  if (in_child())
    throw Error(ErrorCode::invalid_argument,
                "this process is a child that fork() made; only its parent is a rank of the world. Fork before the "
                "world is made, or let the child exec a program");
}

void CallerChecks::check_may_wait() const {
  check_process();
  check_no_callback();
}

void CallerChecks::check_no_callback() {
  if (in_callback)
    throw Error(ErrorCode::invalid_argument,
                "a callback of asynchronous work may not block; start further work instead");
}

void CallerChecks::call_back(const std::function<void()>& call) {
  const bool before = std::exchange(in_callback, true);
  call();
  in_callback = before;
}

}  // namespace anello::group
