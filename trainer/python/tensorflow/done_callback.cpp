#include "trainer/python/tensorflow/done_callback.hpp"

#include <link.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace anello::tensorflow {
namespace {

struct Search {
  std::uintptr_t address;
  std::uintptr_t object;  // start address of the shared object that contains this address
  bool found;
};

int look_into(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  for (int k = 0; k < object->dlpi_phnum; k++) {
    const auto& segment = object->dlpi_phdr[k];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    if (search.address - (object->dlpi_addr + segment.p_vaddr) < segment.p_memsz) {
      search.object = object->dlpi_addr;
      search.found = true;
    }
  }
  return search.found;
}

// Does not use dladdr(), which would also look for the function's name. This takes a millisecond in a library of
// TensorFlow's size.
Search code_at(std::uintptr_t address) {
  Search search{address, 0, false};
  dl_iterate_phdr(look_into, &search);
  return search;
}

}  // namespace

// Caches the last result: TensorFlow makes all its callbacks in one place, and the search takes some microseconds.
bool is_std_function(const void* address) {
  static thread_local std::uintptr_t found_manager = 1, found_invoker = 1;  // no code lies there
  std::uintptr_t words[sizeof(std::function<void()>) / sizeof(std::uintptr_t)];
  static_assert(sizeof words == 4 * sizeof(std::uintptr_t));
  std::memcpy(words, address, sizeof words);
  if (words[2] == found_manager && words[3] == found_invoker) return true;
  const Search manager = code_at(words[2]), invoker = code_at(words[3]);
  if (!manager.found || !invoker.found || manager.object != invoker.object) return false;
  found_manager = words[2];
  found_invoker = words[3];
  return true;
}

DoneCallback::DoneCallback(TF_AsyncOpKernelDoneCallback* given) : given_(given) {
  if (is_std_function(given)) kept_ = std::move(*reinterpret_cast<std::function<void()>*>(given));
}

void DoneCallback::run() {
  tf.RunAsyncOpKernelDoneCallback(kept_ ? reinterpret_cast<TF_AsyncOpKernelDoneCallback*>(&kept_) : given_);
}

}  // namespace anello::tensorflow
