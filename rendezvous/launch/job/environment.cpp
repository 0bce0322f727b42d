#include "rendezvous/launch/job/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <array>
#include <string_view>

#include "ring/base/config.hpp"
#include "ring/base/cores.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

std::string_view variable_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

// Variables that scripts for torchrun or for horovodrun read, and that only some kinds of jobs set. Ranks do not
// inherit them: this launcher may run in a process of another job, and then these variables describe that process.
constexpr std::array<std::string_view, 10> kOfOthers = {
    "RANK",         "LOCAL_RANK",         "WORLD_SIZE",   "LOCAL_WORLD_SIZE",   "HOROVOD_ELASTIC",
    "HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE", "HOROVOD_HOSTNAME"};

bool set_by_a_launcher(std::string_view entry) {
  if (std::ranges::find(kOfOthers, variable_of(entry)) != kOfOthers.end()) return true;
  return std::ranges::any_of(
      setting_rows(), [&](const SettingRow& row) { return row.kind == "given" && row.variable == variable_of(entry); });
}

void add_place_in_world(std::vector<std::string>& out, const Job& job, const HostRanks& here, int rank) {
  out.push_back(text("ANELLO_RANK=", rank));
  out.push_back(text("ANELLO_SIZE=", job.size));
  out.push_back(text("ANELLO_LOCAL_RANK=", rank - here.first));
  out.push_back(text("ANELLO_LOCAL_SIZE=", here.count));
}

// A process of an elastic job gets its rank when a world begins. Only its number on its host is fixed before.
void add_place_in_elastic_job(std::vector<std::string>& out, const HostRanks& here, int rank) {
  out.emplace_back("ANELLO_ELASTIC=1");
  out.emplace_back("HOROVOD_ELASTIC=1");
  out.push_back(text("ANELLO_PLACE=", rank));
  out.push_back("HOROVOD_HOSTNAME=" + here.host);
  for (const char* prefix : {"ANELLO_", "HOROVOD_", ""}) out.push_back(text(prefix, "LOCAL_RANK=", rank - here.first));
}

// Sets the variables that scripts for torchrun or for horovodrun read.
void add_variables_of_others(std::vector<std::string>& out, const Job& job, const HostRanks& here, int rank,
                             const Master& master) {
  for (const char* prefix : {"", "HOROVOD_"}) {
    out.push_back(text(prefix, "RANK=", rank));
    out.push_back(text(prefix, "LOCAL_RANK=", rank - here.first));
  }
  out.push_back(text("WORLD_SIZE=", job.size));
  out.push_back(text("LOCAL_WORLD_SIZE=", here.count));
  out.push_back(text("HOROVOD_SIZE=", job.size));
  out.push_back(text("HOROVOD_LOCAL_SIZE=", here.count));
  out.push_back("MASTER_ADDR=" + master.address);
  out.push_back("MASTER_PORT=" + master.port);
}

}  // namespace

bool is_set(std::string_view name) {
  for (char** entry = environ; *entry; entry++)
    if (variable_of(*entry) == name) return true;
  return false;
}

std::string threads_of_rank(const HostRanks& here) {
  return text(std::max(1, int(available_cores().count()) / here.count));
}

std::vector<std::string> rank_environment(const Job& job, const HostRanks& here, int rank, const MeetingPlaces& places,
                                          int starts) {
  std::vector<std::string> own = variables_set_for(job, here, rank, places, threads_of_rank(here));
  if (job.elastic) own.push_back(text("ANELLO_RESTART=", starts));
  std::vector<std::string> out = own;
  for (char** entry = environ; *entry; entry++) {
    const auto same = [&](const std::string& one) { return variable_of(one) == variable_of(*entry); };
    if (!set_by_a_launcher(*entry) && std::ranges::none_of(own, same)) out.emplace_back(*entry);
  }
  return out;
}

void check_exported(const Job& job) {
  const HostRanks& here = job.layout.front();
  const std::vector<std::string> own =
      variables_set_for(job, here, here.first, {job.rendezvous, job.master}, threads_of_rank(here));
  for (const std::string& name : job.exported) {
    if (name == "MASTER_ADDR" || name == "MASTER_PORT") continue;
    const auto set = std::ranges::find(own, name, variable_of);
    if (set != own.end() && *set != text(name, "=", environment(name.c_str()).value_or("")))
      throw Error(ErrorCode::configuration,
                  text("-x ", name, ": `anello run` itself sets this variable for its ranks; leave it out"));
  }
}

std::vector<std::string> variables_set_for(const Job& job, const HostRanks& here, int rank, const MeetingPlaces& places,
                                           const std::string& threads) {
  std::vector<std::string> out;
  if (!job.elastic) add_place_in_world(out, job, here, rank);
  if (job.elastic) add_place_in_elastic_job(out, here, rank);
  out.push_back("ANELLO_RENDEZVOUS=" + places.rendezvous);
  out.push_back("ANELLO_JOB=" + job.name);
  if (!job.secret.empty()) out.push_back(text("ANELLO_SECRET_FD=", kSecretDescriptor));
  out.push_back(text("ANELLO_REPORT_FD=", kLastWordsDescriptor));
  if (job.max_restarts > 0 && !job.elastic) out.push_back(text("ANELLO_RESTART=", job.restart));
  if (rank == 0 && job.columns > 0) out.push_back(text("ANELLO_TTY=", job.columns));
  if (!job.elastic) add_variables_of_others(out, job, here, rank, places.master);
  // Without these variables, OpenMP and OpenBLAS would start, in every rank, a thread for each core. OpenBLAS uses
  // OMP_NUM_THREADS if its own variable is not set.
  const bool openmp = is_set("OMP_NUM_THREADS");
  if (!openmp) out.emplace_back("OMP_NUM_THREADS=1");
  if (!openmp && !is_set("OPENBLAS_NUM_THREADS")) out.emplace_back("OPENBLAS_NUM_THREADS=1");
  // TensorFlow starts a thread for each core that it may use. A bound rank may use only its own cores, so it needs no
  // limit.
  for (const char* name : {"TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"})
    if (!job.bind && !is_set(name)) out.push_back(text(name, "=", threads));
  // If this variable is not set here, the GPU plugin sets it in the rank, at a time when other threads of the program
  // may be reading the environment.
  if (!is_set("NCCL_LAUNCH_ORDER_IMPLICIT")) out.emplace_back("NCCL_LAUNCH_ORDER_IMPLICIT=1");
  return out;
}

}  // namespace anello::launch
