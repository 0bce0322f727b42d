#include "bench/ours.hpp"

#include <anello/memory.hpp>
#include <anello/version.hpp>
#include <nlohmann/json.hpp>
#include <set>

namespace anello::bench {

int in_world(const Settings& settings, const std::function<int(World&)>& run) {
  World world = init(settings);
  try {
    const int code = run(world);
    world.finish();
    return code;
  } catch (const std::exception& error) {
    world.abort(error.what());  // all ranks then report this reason
    throw;
  }
}

nlohmann::ordered_json Ours::facts() const {
  std::set<std::string> hosts;
  for (int rank = 0; rank < world_.size(); rank++) hosts.insert(world_.host(rank));
  return {{"library", "anello"},
          {"version", version()},
          {"hosts", hosts},
          {"transport", settings_.transport},
          {"algorithm", settings_.algorithm},
          {"slab_bytes", settings_.slab_bytes},
          {"congestion", settings_.congestion},
          {"allocate", options_.shareable},
          {"wire", options_.wire ? name(*options_.wire) : "as is"}};
}

Memory Ours::allocate(std::size_t bytes) {
  if (!options_.shareable) return pages(bytes);
  refuse_if_short(bytes);
  return {static_cast<std::byte*>(anello::allocate(bytes)), anello::deallocate};
}

Library::Call Ours::allreduce(ConstTensor input, Tensor output, Op op) {
  return [this, input, output, op] { world_.allreduce(input, output, op, {.wire = options_.wire}); };
}

}  // namespace anello::bench
