// A plugin without a GPU, with the version that a macro gives. With version 0, the library is not a plugin. With
// version -1, the library hangs when it is loaded.
#include <unistd.h>

#include "gpu/table.h"

#if FAKE_PLUGIN_VERSION < 0
__attribute__((constructor)) static void hang() {
  while (true) pause();
}
#endif

#if FAKE_PLUGIN_VERSION > 0
const AnelloGpuTable* anello_gpu_table() {
  static const AnelloGpuTable table = [] {
    AnelloGpuTable all{};
    all.version = FAKE_PLUGIN_VERSION;
    all.describe = [](int) { return "the driver is asleep"; };
    all.device_count = [](int* count) {
      *count = 0;
      return 35;
    };
    return all;
  }();
  return &table;
}
#endif
