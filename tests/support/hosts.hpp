// A world of threads that behaves like a world on several hosts: shared memory within each host, TCP between them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ring/base/text.hpp"
#include "ring/testing/run_world.hpp"
#include "ring/world/peer_info.hpp"
#include "tests/support/layouts.hpp"

namespace anello {

inline void run_on(const Layout& layout, const std::function<void(World&)>& program, const Settings& settings = {}) {
  run_world(layout.world(), program, settings, [&](int, std::vector<std::string> blobs) {
    for (std::size_t rank = 0; rank < blobs.size(); rank++) {
      if (blobs[rank].empty()) continue;
      world::PeerInfo info = world::decode_peer_info(blobs[rank]);
      info.node_rank = layout.hosts[rank];
      info.kernel = text("of host ", info.node_rank);
      if (!info.memory.empty()) info.memory += text(" of host ", info.node_rank);
      blobs[rank] = world::encode(info);
    }
    return blobs;
  });
}

}  // namespace anello
