// Threads of the library's own: signals are the program's, its handlers run on its own threads and interrupt them.
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
