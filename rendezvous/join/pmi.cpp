#include "rendezvous/join/pmi.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>

#include <asio/ip/tcp.hpp>
#include <cstdlib>
#include <cstring>

#include "rendezvous/join/manager_connection.hpp"
#include "rendezvous/join/pmi_client.hpp"
#include "rendezvous/join/slurm_step.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/protocol.hpp"
#include "ring/base/config.hpp"
#include "ring/base/descriptor.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/context.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {
namespace {

using asio::ip::tcp;
using std::chrono::milliseconds;

struct Connection : ManagerConnection {
  Connection() : ManagerConnection("PMI") {}
  std::unique_ptr<PmiClient> client;
};

Connection& connection() {
  // Never destroyed, because it is used at exit, when static objects may be gone.
  static auto* const only = new Connection;
  return *only;
}

class PmiSpace : public ManagerSpace {
 public:
  PmiSpace(ManagerConnection::Turn turn, PmiClient& client) : ManagerSpace(std::move(turn)), client_(client) {}

  int rank() const override { return client_.rank(); }
  int size() const override { return client_.size(); }
  std::string name() const override { return own_name(client_.space()); }
  void put(const std::string& key, const std::string& value) override { client_.put(own_key(key), value); }
  void fence() override {
    client_.barrier();
    passed_fence();
  }
  std::string get(const std::string& key) override { return client_.get(own_key(key)); }

 private:
  PmiClient& client_;
};

bool is_started_by_slurm() {
  return is_slurms_pmi(environment);
}

std::string manager_name() {
  if (is_started_by_slurm()) return "Slurm's srun";
  return environment("HYDI_CONTROL_FD") ? "MPICH's mpiexec" : "the process manager";
}

int look_for_mpi(dl_phdr_info* library, std::size_t, void*) {
  const char* const slash = std::strrchr(library->dlpi_name, '/');
  const std::string_view name = slash ? slash + 1 : library->dlpi_name;
  return name.starts_with("libmpi.so") || name.starts_with("libmpich.so") || name.starts_with("libmpi_");
}

// True if MPI is linked into the program, or was loaded by a library of the program. (dlsym finds MPI only in the first
// case.)
bool mpi_is_loaded() {
  return dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr || dl_iterate_phdr(look_for_mpi, nullptr) != 0;
}

// Slurm answers only the first greeting on its socket, so the second library that sends a greeting would wait for ever.
void leave_slurm_to_mpi() {
  if (is_started_by_slurm() && mpi_is_loaded())
    throw Error(
        ErrorCode::unsupported,
        "Slurm's PMI serves either MPI or Anello, and this process has loaded an MPI library; start it by plain "
        "srun, or by srun --mpi=pmix");
}

// Connects to the first address that accepts. The time limit is for all addresses of a name together.
Descriptor connect_to(const std::string& address, milliseconds limit) {
  const net::HostPort where = net::parse_host_port("PMI_PORT", address);
  net::Context context;
  asio::error_code error;
  const auto found = tcp::resolver(context).resolve(where.host, std::to_string(where.port), error);
  const milliseconds for_each = limit / std::max(long(found.size()), 1L);
  for (const auto& entry : found) {
    tcp::socket socket{context};
    net::open_socket(socket, entry.endpoint().protocol(), error);
    if (error) continue;
    asio::error_code outcome = asio::error::timed_out;
    socket.async_connect(entry, [&](asio::error_code result) { outcome = result; });
    context.restart();
    context.run_for(for_each);
    error = outcome;
    if (!error) return Descriptor(socket.release());
    socket.close();
    context.restart();
    context.run();
  }
  throw Error(ErrorCode::network, text(manager_name(), ": connecting to PMI_PORT=", address, ": ", error.message()));
}

PmiLink link_of_environment(milliseconds limit) {
  PmiLink link;
  link.manager = manager_name();
  if (const auto fd = environment("PMI_FD")) {
    link.fd = int(parse_number("PMI_FD", *fd, 0, 1 << 20));
    link.size = int(parse_number("PMI_SIZE", environment("PMI_SIZE").value_or(""), 1, kMaxRanks));
    link.rank = int(parse_number("PMI_RANK", environment("PMI_RANK").value_or(""), 0, link.size - 1));
  } else {
    link.id = environment("PMI_ID").value_or("");
    parse_number("PMI_ID", link.id, 0, kMaxRanks - 1);
    link.fd = connect_to(*environment("PMI_PORT"), limit).release();
  }
  return link;
}

void finalize_at_exit() {
  if (connection().is_own()) connection().client->finalize();
}

}  // namespace

std::unique_ptr<KeyValueSpace> open_pmi(milliseconds limit) {
  if (!environment("PMI_FD") && !environment("PMI_PORT")) return nullptr;
  Connection& only = connection();
  ManagerConnection::Turn turn(only);
  if (!only.client) {
    leave_slurm_to_mpi();
    only.client = std::make_unique<PmiClient>(link_of_environment(limit), limit);
    only.opened();
    std::atexit(finalize_at_exit);
  }
  only.client->set_limit(limit);
  return std::make_unique<PmiSpace>(std::move(turn), *only.client);
}

}  // namespace anello::rendezvous
