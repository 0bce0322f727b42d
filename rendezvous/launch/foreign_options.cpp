#include "rendezvous/launch/foreign_options.hpp"

#include <algorithm>

namespace anello::launch {
namespace {

struct Row {
  std::string_view option, equivalent;
};
constexpr Row kRows[] = {
    {"--bind-to", "write --bind to run each rank on its own cores"},
    {"--bind-to-core", "write --bind to run each rank on its own cores"},
    {"--cpu-bind", "write --bind to run each rank on its own cores"},
    {"--check-build", "run `anello doctor`"},
    {"--genv", "write -x NAME=VALUE"},
    {"--env", "write -x NAME=VALUE"},
    {"--hosts", "write -H h1:4,h2:4"},
    {"--machinefile", "write --hostfile FILE"},
    {"--ppn", "write -N N for the ranks on each host"},
    {"--npernode", "write -N N for the ranks on each host"},
    {"--master-addr", "write --rendezvous HOST:PORT"},
    {"--rdzv-endpoint", "write --rendezvous HOST:PORT"},
    {"--gpus-per-node", "a rank uses the GPU with the number of its local rank"},
    {"--nproc-per-host", "write -N N for the ranks on each host"},
    {"--nproc-per-node", "write -N N for the ranks on each host"},
    {"--ntasks", "write -n N for the number of ranks"},
    {"--num-proc", "write -n N for the number of ranks"},
    {"--label", "lines begin with [rank] already"},
    {"--tag-output", "lines begin with [rank] already"},
    {"--prepend-rank", "lines begin with [rank] already"},
    {"--timestamp-output", "write --timestamp"},
    {"--prefix-timestamp", "write --timestamp"},
    {"--output-filename", "write --output DIR"},
    {"--log-dir", "write --output DIR"},
    {"--redirects", "write --output DIR"},
    {"--max-restarts", "write --restarts N"},
    {"--mca", "settings are environment variables (`anello settings`)"},
    {"--display-map", "write --dry-run"},
    {"--display-allocation", "write --dry-run"},
    {"--report-bindings", "write --dry-run"},
    {"--network-interface", "set the variable ANELLO_IFACE"},
    {"--network-interfaces", "set the variable ANELLO_IFACE"},
    {"--start-timeout", "set the variable ANELLO_START_TIMEOUT, in milliseconds"},
    {"--oversubscribe", "leave it out: ranks may outnumber cores"},
    {"--allow-run-as-root", "leave it out: any user may run jobs"},
    {"--standalone", "leave it out: `anello run` starts its own rendezvous server"},
};

}  // namespace

std::string_view equivalent_of(std::string_view option) {
  const Row* row = std::ranges::find(kRows, option, &Row::option);
  return row == std::end(kRows) ? std::string_view() : row->equivalent;
}

}  // namespace anello::launch
