#include "rendezvous/launch/doctor/host_examination.hpp"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <anello/version.hpp>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gpu/plugin_loader.hpp"
#include "rendezvous/check_settings.hpp"
#include "rendezvous/client/client.hpp"
#include "rendezvous/join/home_secret.hpp"
#include "rendezvous/join/join_plan.hpp"
#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/doctor/build_info.hpp"
#include "rendezvous/launch/processes/local_ranks.hpp"
#include "ring/base/config.hpp"
#include "ring/base/cores.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"
#include "ring/net/hmac.hpp"

namespace anello::launch {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(std::min(line.find(": ") + 2, line.size()));
  return "unknown";
}

std::string shown(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

void examine_build(Findings& findings) {
  findings.fact("anello", std::string(version()));
  for (const auto& [feature, state] : kFeatures) findings.fact(feature, state);
  try {
    net::require_authentication("any");
  } catch (const Error& error) {
    findings.problem(error.what());
  }
}

void examine_system(Findings& findings) {
  utsname system{};
  if (uname(&system) == 0) findings.fact("kernel", text(system.sysname, ' ', system.release, ' ', system.machine));
  findings.fact("processor", processor());
  findings.fact("cores", text(available_cores().count(), " usable by this process, of ", sysconf(_SC_NPROCESSORS_ONLN),
                              " online (limited by affinity and control group)"));
  std::map<std::string, std::string> interfaces;
  bool loopback = false, network = false;
  for (const net::Interface& one : net::local_interfaces()) {
    interfaces[one.name] += one.address + " ";
    (net::is_loopback(one.address) ? loopback : network) = true;
  }
  for (const auto& [name, addresses] : interfaces) findings.fact_of_one_host("interface " + name, addresses);
  if (!loopback) findings.problem(kNoLoopback);
  if (!network) findings.fact("other hosts", "cannot reach this host, which has only loopback");

  const std::string control = first_line("/proc/sys/net/ipv4/tcp_congestion_control");
  const std::string paced =
      control == "bbr" ? "; ranks of one host use reno instead, because bbr delays packets (ANELLO_CONGESTION)" : "";
  findings.fact(
      "TCP congestion",
      text(control, "; available: ", first_line("/proc/sys/net/ipv4/tcp_available_congestion_control"), paced));
}

void examine_limits(Findings& findings) {
  rlimit files{}, locked{};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_MEMLOCK, &locked);
  findings.fact("open files", text(shown(files.rlim_cur), ", maximum ", shown(files.rlim_max), " (ulimit -n)"));
  findings.fact("locked memory", text(shown(locked.rlim_cur), " bytes (ulimit -l)"));
  if (files.rlim_max < 1024)
    findings.problem(text("only ", files.rlim_max, " open files are allowed; raise the limit to 1024 (ulimit -n)"));
}

std::string version_text(int version) {
  return text(version / 1000, ".", version % 1000 / 10);
}

// Reports the GPUs that the ranks of this host would use. Having no GPU is not a problem.
void examine_gpus(Findings& findings) {
  try {
    const gpu::DevicePlugin& library = gpu::installed(environment("ANELLO_GPU_PLUGIN").value_or(""));
    const AnelloGpuTable& table = library.table();
    findings.fact("GPU plugin", library.path().string());
    const int count = gpu::device_count(table);
    int driver = 0, runtime = 0;
    table.versions(&driver, &runtime);
    findings.fact("CUDA", text("driver supports ", version_text(driver), ", runtime is ", version_text(runtime)));
    for (int device = 0; device < count; device++) {
      const AnelloGpuInfo info = library.info(gpu::DeviceId(device));
      findings.fact(text("GPU ", device), text(info.name, ", ", info.memory_bytes >> 30, " GiB, compute capability ",
                                               info.major, ".", info.minor, ", ", info.bus_id));
    }
    const char* why_not = "";
    const AnelloNcclTable* const nccl = table.nccl(&why_not);
    int version = 0;
    if (nccl) nccl->version(&version);
    findings.fact("NCCL", nccl ? gpu::nccl_version_text(version) : why_not);
    const std::string by_nccl = text("NCCL for at most ", count, count == 1 ? " rank" : " ranks", ", one per GPU");
    findings.fact("GPU tensors", nccl ? by_nccl + "; with more ranks, staging through host memory"
                                      : "staging through host memory, because NCCL is not available");
  } catch (const Error& error) {
    findings.fact("GPU tensors", error.what());
  }
}

// True if a launcher gives each rank its own value.
bool is_given(const std::string& variable) {
  return std::ranges::any_of(setting_rows(),
                             [&](const SettingRow& row) { return row.kind == "given" && row.variable == variable; });
}

// Adds every variable as a fact, and every problem with a variable.
Settings examine_variables(Findings& findings) {
  Settings settings;
  for (const auto& [variable, value] : environment_settings()) {
    // The value of a variable that is not a setting may be a secret.
    findings.facts.push_back({variable, is_setting(variable) ? value : "(not shown)", is_given(variable)});
    const std::string_view nearest = nearest_setting(variable);
    if (!is_setting(variable))
      findings.problem(text(variable, " is not a setting; ",
                            nearest.empty() ? "`anello settings` lists all settings" : text(nearest, " is one")));
    else
      world::attempt([&](const Error& error) { findings.problem(error.what()); },
                     [&, assignment = text(variable, "=", value)] { settings.set(assignment); });
  }
  return settings;
}

// Returns false for a pipe, because a secret in a pipe can be read only once, and the ranks need it.
bool secret_can_be_read(const Settings& settings) {
  return settings.secret_fd < 0 || lseek(settings.secret_fd, 0, SEEK_CUR) >= 0;
}

// Reports the rank and the launcher that init() would find for this process.
void examine_place(Findings& findings, const Settings& settings) {
  const std::vector<rendezvous::Placement> found = rendezvous::placements();
  for (const rendezvous::Placement& one : found)
    findings.fact_of_one_host("started as", text(one.task(), " (", one.evidence, ")"));
  const rendezvous::JoinPlan plan = rendezvous::plan_join(settings, found);
  findings.fact_of_one_host("a program here is", rendezvous::describe(plan));
}

void examine_settings(Findings& findings, bool try_server) {
  Settings settings = examine_variables(findings);
  int problems = 0;
  const auto refuse = [&](const Error& error) {
    findings.problem(error.what());
    problems++;
  };
  const bool readable = secret_can_be_read(settings);
  if (!readable) settings.secret_fd = -1;
  rendezvous::check_settings(settings, refuse);
  world::attempt(refuse, [&] { examine_place(findings, settings); });
  rendezvous::check_joining(settings, refuse);
  world::check_settings(settings, std::max(settings.rank, 0), refuse);
  if (settings.rendezvous.empty() || !try_server) return;
  if (problems > 0 || !readable)
    return findings.fact("rendezvous", problems > 0 ? "not tried, because of the problems with settings"
                                                    : "not tried, because the secret can be read only once");
  world::attempt(refuse, [&] {
    RendezvousClient::try_server(settings, rendezvous::read_job_secret(settings));
    findings.fact("rendezvous", text(settings.rendezvous, " answers, for job '", settings.job, "'"));
  });
}

}  // namespace

Findings examine_host(bool try_server) {
  Findings findings;
  examine_build(findings);
  examine_system(findings);
  examine_limits(findings);
  examine_gpus(findings);
  examine_settings(findings, try_server);
  return findings;
}

std::string describe_interface(const std::string& address) {
  for (const net::Interface& one : net::local_interfaces()) {
    if (one.address != address) continue;
    ifreq request{};
    one.name.copy(request.ifr_name, IFNAMSIZ - 1);
    const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return one.name;
    return text(one.name, ", MTU ", request.ifr_mtu);
  }
  return "unknown";
}

}  // namespace anello::launch
