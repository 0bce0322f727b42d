// Replaces pmix.cpp in a build without PMIx's headers: every use of PMIx is refused.
#include <anello/error.hpp>

#include "rendezvous/join/pmix.hpp"
#include "ring/base/config.hpp"

namespace anello::rendezvous {

std::unique_ptr<KeyValueSpace> open_pmix(std::chrono::milliseconds) {
  if (!environment("PMIX_RANK") || !environment("PMIX_NAMESPACE")) return nullptr;
  throw Error(
      ErrorCode::unsupported,
      "the process manager offers PMIx, and this build of Anello has no PMIx: its headers were not found (Debian: "
      "libpmix-dev)");
}

}  // namespace anello::rendezvous
