#include "rendezvous/join/process_manager.hpp"

#include "rendezvous/join/pmi.hpp"
#include "rendezvous/join/pmix.hpp"

namespace anello::rendezvous {

std::unique_ptr<KeyValueSpace> open_process_manager(Way way, std::chrono::milliseconds limit) {
  return way == Way::pmi ? open_pmi(limit) : open_pmix(limit);
}

}  // namespace anello::rendezvous
