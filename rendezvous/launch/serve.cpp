#include "rendezvous/launch/serve.hpp"

#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "rendezvous/launch/descriptor.hpp"
#include "rendezvous/launch/signals.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {

void serve(const ServerOptions& options) {
  open_missing_standard_descriptors();
  Signals signals({SIGINT, SIGTERM, SIGHUP});  // before the server's thread, which is to leave them alone
  const RendezvousServer server(options);
  write_all(STDOUT_FILENO, "ANELLO_RENDEZVOUS=" + host_port(options.listen_address, server.port()) + "\n",
            "standard output");
  while (!signals.next()) {
    pollfd entry{signals.fd(), POLLIN, 0};
    poll(&entry, 1, -1);
  }
}

}  // namespace anello::launch
