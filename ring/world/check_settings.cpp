#include "ring/world/check_settings.hpp"

#include <fstream>
#include <sstream>

#include "ring/algorithms/tuning_table.hpp"
#include "ring/base/text.hpp"
#include "ring/group/planner.hpp"
#include "ring/net/addresses.hpp"
#include "ring/services/on_signal.hpp"
#include "ring/shm/byte_pipe.hpp"
#include "ring/world/peer_info.hpp"

namespace anello::world {
namespace {

void check_transport(const std::string& transport) {
  if (transport != "auto" && transport != "tcp" && transport != "shm")
    throw Error(ErrorCode::configuration, text("ANELLO_TRANSPORT must be auto, tcp or shm, not '", transport, "'"));
}

void check_pipes(int bytes) {
  if (bytes % int(shm::kLineBytes) != 0)
    throw Error(ErrorCode::configuration,
                text("ANELLO_SHM_BYTES must be a multiple of ", shm::kLineBytes, ", not ", bytes));
}

}  // namespace

std::string read_table(const std::string& path) {
  if (path.empty()) return {};
  const std::string what = text("ANELLO_TABLE='", path, "'");
  std::ifstream file(path);
  std::ostringstream all;
  if (!file || !(all << file.rdbuf()))
    throw Error(ErrorCode::configuration, text(what, " cannot be read, or is empty"));
  const std::string table = std::move(all).str();
  if (table.size() > PeerInfo::kMaxTableBytes)
    throw Error(ErrorCode::configuration, text(what, " has more than ", PeerInfo::kMaxTableBytes, " bytes"));
  try {
    algorithms::parse_table(table);
  } catch (Error& e) {
    throw e.within(what);
  }
  return table;
}

void check_settings(const Settings& settings, int rank, const Refuse& refuse) {
  attempt(refuse, [&] { check_transport(settings.transport); });
  attempt(refuse, [&] { check_pipes(settings.shm_bytes); });
  attempt(refuse, [&] { net::parse_port_range(settings.port_range); });
  attempt(refuse, [&] { group::with_settings({}, settings); });
  attempt(refuse, [&] {
    if (!settings.metrics.empty()) net::parse_host_port("ANELLO_METRICS", settings.metrics);
  });
  attempt(refuse, [&] {
    if (settings.flight_signal != "none") services::signal_number(settings.flight_signal);
  });
  attempt(refuse, [&] {
    if (rank == 0) read_table(settings.table);
  });
}

}  // namespace anello::world
