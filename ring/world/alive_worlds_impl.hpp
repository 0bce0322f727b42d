// The worlds of this process that have started and have not left. In a child that fork() made, the list is empty. Any
// thread.
#pragma once
#include <set>
#include <string_view>

#include "ring/base/mutex.hpp"
#include "ring/base/process_mark.hpp"
#include "ring/world/world_impl.hpp"

namespace anello {

class World::Impl::Alive {
 public:
  static void add(Impl& world);
  static void remove(Impl& world);
  // Aborts each world; see WorldMaker::abort_all(). During this call no world can leave. Locks no mutex that may be
  // held by the thread that threw the exception.
  static void abort_all(std::string_view reason);
  static void say_goodbye_to_all() noexcept;  // call when the process ends; afterwards the worlds cannot be used

 private:
  static Alive& of_this_process();
  static void notice_exit();  // called when the first world is made

  const ProcessMark process_;
  Mutex mutex_;
  std::set<Impl*> worlds_ ANELLO_GUARDED_BY(mutex_);
};

}  // namespace anello
