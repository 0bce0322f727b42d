#include "bench/session.hpp"

namespace anello::bench {

int in_world(const Settings& settings, const std::function<int(World&)>& run) {
  World world = init(settings);
  try {
    const int code = run(world);
    world.finish();
    return code;
  } catch (const std::exception& error) {
    world.abort(error.what());  // the other ranks then say why as well
    throw;
  }
}

}  // namespace anello::bench
