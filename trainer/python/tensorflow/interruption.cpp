#include "trainer/python/tensorflow/interruption.hpp"

#include <anello/export.h>
#include <dlfcn.h>
#include <unistd.h>

#include <utility>

struct _object;  // PyObject

namespace anello::tensorflow {
namespace {

// The functions of Python's C API that are used here. They are looked up in the process, so that one build serves all
// versions of Python.
struct Python {
  int (*take_lock)() = look_up<int (*)()>("PyGILState_Ensure");
  void (*give_lock)(int) = look_up<void (*)(int)>("PyGILState_Release");
  int (*check_signals)() = look_up<int (*)()>("PyErr_CheckSignals");
  void (*fetch)(_object**, _object**, _object**) = look_up<decltype(fetch)>("PyErr_Fetch");
  void (*restore)(_object*, _object*, _object*) = look_up<decltype(restore)>("PyErr_Restore");
  void (*let_go)(_object*) = look_up<decltype(let_go)>("Py_DecRef");  // nullptr: does nothing

  bool is_complete() const { return take_lock && give_lock && check_signals && fetch && restore && let_go; }

 private:
  template <class Function>
  static Function look_up(const char* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  }
};

const Python& python() {
  static const Python found;
  return found;
}

struct Exception {
  _object *type = nullptr, *value = nullptr, *trace = nullptr;
};
thread_local Exception raised;

}  // namespace

bool interrupted() {
  // Python handles signals only on its first thread. While Python exits, it ends any other thread that asks for its
  // lock.
  if (gettid() != getpid() || !python().is_complete()) return false;
  const int held = python().take_lock();
  const bool is_raised = python().check_signals() != 0;
  if (is_raised) python().fetch(&raised.type, &raised.value, &raised.trace);
  python().give_lock(held);
  return is_raised;
}

void forget_interruption() {
  if (!raised.type) return;
  const Exception kept = std::exchange(raised, {});
  for (_object* each : {kept.type, kept.value, kept.trace}) python().let_go(each);
}

}  // namespace anello::tensorflow

using namespace anello::tensorflow;

ANELLO_API_BEGIN
// Raises the exception that interrupted() has kept for this thread, if there is one. Called by Python; the caller holds
// Python's global lock.
extern "C" void anello_tensorflow_raise_interruption() {
  const Exception kept = std::exchange(raised, {});
  if (kept.type) python().restore(kept.type, kept.value, kept.trace);
}
ANELLO_API_END
