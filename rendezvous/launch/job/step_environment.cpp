#include "rendezvous/launch/job/step_environment.hpp"

#include <unistd.h>

#include <algorithm>

namespace anello::launch {

bool shapes_steps(std::string_view variable) {
  // Some entries are only beginnings of names: CPU_BIND_LIST, MEM_PER_NODE, NTASKS_PER_SOCKET, GPUS_PER_TASK.
  constexpr std::string_view kOptions[] = {
      "CPUS_PER_",  "CPU_BIND",  "MEM_PER_",     "MEM_BIND", "NTASKS_PER_",      "GPUS",       "GPU_BIND",
      "GRES",       "STEP_GRES", "TRES_",        "EXACT",    "EXCLUSIVE",        "OVERLAP",    "OVERCOMMIT",
      "HINT",       "HOSTFILE",  "DISTRIBUTION", "DIST_",    "THREADS_PER_CORE", "ARBITRARY_", "LABELIO",
      "STDOUTMODE", "STDERR",    "DEBUG",        "BCAST"};
  for (const std::string_view prefix : {"SLURM_", "SRUN_"})
    if (variable.starts_with(prefix))
      return std::ranges::any_of(kOptions, [option = variable.substr(prefix.size())](std::string_view one) {
        return option.starts_with(one);
      });
  return false;
}

std::vector<std::string> variables_that_shape_steps() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; entry++) {
    const std::string_view variable = *entry;
    if (shapes_steps(variable.substr(0, variable.find('=')))) out.emplace_back(variable);
  }
  return out;
}

}  // namespace anello::launch
