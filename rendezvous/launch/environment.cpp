#include "rendezvous/launch/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "rendezvous/job_ports.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

std::string_view variable_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

bool set_by_a_launcher(std::string_view entry) {
  return std::ranges::any_of(
      setting_rows(), [&](const SettingRow& row) { return row.kind == "given" && row.variable == variable_of(entry); });
}

// Several launchers of one job do not know each other's hosts: their server runs on host 0.
std::string host_of_rank_0(const Job& job) {
  if (job.started_ranks() < job.size) return job.rendezvous.substr(0, job.rendezvous.rfind(':'));
  return job.remote ? job.host_of(0) : "127.0.0.1";
}

// What scripts read that were written for torchrun or for horovodrun.
void add_variables_of_others(std::vector<std::string>& out, const Job& job, const HostRanks& here, int rank) {
  for (const char* prefix : {"", "HOROVOD_"}) {
    out.push_back(text(prefix, "RANK=", rank));
    out.push_back(text(prefix, "LOCAL_RANK=", rank - here.first));
  }
  out.push_back(text("WORLD_SIZE=", job.size));
  out.push_back(text("LOCAL_WORLD_SIZE=", here.count));
  out.push_back(text("HOROVOD_SIZE=", job.size));
  out.push_back(text("HOROVOD_LOCAL_SIZE=", here.count));
  out.push_back("MASTER_ADDR=" + host_of_rank_0(job));
  out.push_back(text("MASTER_PORT=", rendezvous::job_ports(job.name + " torch", "").front()));
}

}  // namespace

std::vector<std::string> rank_environment(const Job& job, const HostRanks& here, int rank,
                                          const std::string& rendezvous) {
  const std::vector<std::string> own = variables_set_for(job, here, rank, rendezvous);
  std::vector<std::string> out = own;
  for (char** entry = environ; *entry; entry++) {
    const auto same = [&](const std::string& one) { return variable_of(one) == variable_of(*entry); };
    if (!set_by_a_launcher(*entry) && std::ranges::none_of(own, same)) out.emplace_back(*entry);
  }
  return out;
}

std::vector<std::string> variables_set_for(const Job& job, const HostRanks& here, int rank,
                                           const std::string& rendezvous) {
  std::vector<std::string> out;
  out.push_back(text("ANELLO_RANK=", rank));
  out.push_back(text("ANELLO_SIZE=", job.size));
  out.push_back(text("ANELLO_LOCAL_RANK=", rank - here.first));
  out.push_back(text("ANELLO_LOCAL_SIZE=", here.count));
  out.push_back("ANELLO_RENDEZVOUS=" + rendezvous);
  out.push_back("ANELLO_JOB=" + job.name);
  if (!job.secret.empty()) out.push_back(text("ANELLO_SECRET_FD=", kSecretDescriptor));
  out.push_back(text("ANELLO_REPORT_FD=", kLastWordsDescriptor));
  if (job.max_restarts > 0) out.push_back(text("ANELLO_RESTART=", job.restart));
  if (rank == 0 && job.columns > 0) out.push_back(text("ANELLO_TTY=", job.columns));
  add_variables_of_others(out, job, here, rank);
  // Without these, OpenMP and OpenBLAS start a thread per core in every rank. OpenBLAS uses OMP_NUM_THREADS if its own
  // variable is not set.
  const bool openmp = environment("OMP_NUM_THREADS").has_value();
  if (!openmp) out.emplace_back("OMP_NUM_THREADS=1");
  if (!openmp && !environment("OPENBLAS_NUM_THREADS")) out.emplace_back("OPENBLAS_NUM_THREADS=1");
  // The GPU plugin would set it in the rank, where other threads may be reading the environment.
  if (!environment("NCCL_LAUNCH_ORDER_IMPLICIT")) out.emplace_back("NCCL_LAUNCH_ORDER_IMPLICIT=1");
  return out;
}

}  // namespace anello::launch
