// The library's threads block all signals, so that the program's handlers run on, and interrupt, its own threads only.
#pragma once
#include <signal.h>

#include <thread>
#include <utility>

namespace anello {

template <class Body>
std::thread quiet_thread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace anello
