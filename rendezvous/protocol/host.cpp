#include "rendezvous/protocol/host.hpp"

#include <unistd.h>

#include <array>

#include "ring/base/os.hpp"

namespace anello::rendezvous {

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || !name[0]) return "unknown-host";
  return name.data();
}

std::string machine() {
  return kernel_identity("net");
}

}  // namespace anello::rendezvous
