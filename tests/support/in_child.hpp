// Runs a function in a child made by fork().
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace anello {

// Returns the function's result in the child, 0 to 255; -SIGNAL if a signal ended it. An alarm ends a child that hangs.
inline int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace anello
