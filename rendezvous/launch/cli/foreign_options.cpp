#include "rendezvous/launch/cli/foreign_options.hpp"

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
    {"--gpus", "a rank uses the GPU with the number of its local rank"},
    {"--gpus-per-node", "a rank uses the GPU with the number of its local rank"},
    {"--nproc-per-host", "write -N N for the ranks on each host"},
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
    {"--slots-per-host", "let the script write host:slots"},
    {"--map-by", "hosts are filled in their order; -N N limits the ranks on each"},
    {"--rank-by", "hosts are filled in their order; -N N limits the ranks on each"},
    {"--mca", "settings are environment variables (`anello settings`)"},
    {"--display-map", "write --dry-run"},
    {"--display-allocation", "write --dry-run"},
    {"--report-bindings", "write --dry-run"},
    {"--network-interface", "set the variable ANELLO_IFACE (=eth0 by its name)"},
    {"--network-interfaces", "set the variable ANELLO_IFACE (=eth0 by its name)"},
    {"--nics", "set the variable ANELLO_IFACE (=eth0 by its name)"},
    {"-p", "write --ssh 'ssh -p PORT'"},
    {"--ssh-port", "write --ssh 'ssh -p PORT'"},
    {"--ssh-identity-file", "write --ssh 'ssh -i FILE'"},
    {"--log-level", "set the variable ANELLO_LOG to error, warning, info or debug"},
    {"--timeline-filename", "set the variable ANELLO_TIMELINE"},
    {"--fusion-threshold-mb", "set the variable ANELLO_BUCKET_BYTES, in bytes"},
    {"--autotune", "leave it out: sizes are chosen at run time; `anello-bench tune` measures algorithms"},
    {"--cycle-time-ms", "leave it out: operations begin at once"},
    {"--cache-capacity", "leave it out: there is no cache of responses to limit"},
    {"--disable-cache", "leave it out: there is no cache of responses"},
    {"--hierarchical-allreduce", "leave it out: algorithms are chosen by which ranks share a host"},
    {"--no-stall-check", "set the variable ANELLO_STALL_TIME=0"},
    {"--stall-check-warning-time-seconds", "set the variable ANELLO_STALL_TIME, in milliseconds"},
    {"--stall-check-shutdown-time-seconds", "set the variable ANELLO_OPERATION_LIMIT, in milliseconds"},
    {"--prefix-output-with-timestamp", "write --timestamp"},
    {"--config-file", "settings are environment variables (`anello settings`)"},
    {"--mpi-args", "leave it out: ranks need no MPI"},
    {"--mpi", "leave it out: ranks need no MPI"},
    {"--gloo", "leave it out: ranks need no Gloo"},
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
