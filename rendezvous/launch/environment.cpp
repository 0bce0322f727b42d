#include "rendezvous/launch/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

bool set_by_a_launcher(std::string_view entry) {
  const std::string_view variable = entry.substr(0, entry.find('='));
  return std::ranges::any_of(setting_rows(),
                             [&](const SettingRow& row) { return row.kind == "given" && row.variable == variable; });
}

}  // namespace

std::vector<std::string> rank_environment(const Job& job, int rank, std::uint16_t port) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; entry++)
    if (!set_by_a_launcher(*entry)) out.emplace_back(*entry);
  out.push_back(text("ANELLO_RANK=", rank));
  out.push_back(text("ANELLO_SIZE=", job.size));
  out.push_back(text("ANELLO_LOCAL_RANK=", rank));
  out.push_back(text("ANELLO_LOCAL_SIZE=", job.size));
  out.push_back(text("ANELLO_RENDEZVOUS=127.0.0.1:", port));
  out.push_back("ANELLO_JOB=" + job.name);
  if (!job.secret.empty()) out.push_back(text("ANELLO_SECRET_FD=", kSecretDescriptor));
  out.push_back(text("ANELLO_REPORT_FD=", kLastWordsDescriptor));
  if (rank == 0 && job.columns > 0) out.push_back(text("ANELLO_TTY=", job.columns));
  // Without these, OpenMP and OpenBLAS start a thread per core in every rank. OpenBLAS uses OMP_NUM_THREADS if its own
  // variable is not set.
  const bool openmp = environment("OMP_NUM_THREADS").has_value();
  if (!openmp) out.emplace_back("OMP_NUM_THREADS=1");
  if (!openmp && !environment("OPENBLAS_NUM_THREADS")) out.emplace_back("OPENBLAS_NUM_THREADS=1");
  return out;
}

}  // namespace anello::launch
