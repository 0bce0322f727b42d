#include "gpu/load_probe.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>
#include <thread>

#include "ring/base/descriptor.hpp"
#include "ring/base/text.hpp"

namespace anello::gpu {
namespace {

using std::chrono::steady_clock;

constexpr std::string_view kPreload = "LD_PRELOAD=";

// In LD_PRELOAD, spaces and colons separate libraries, even inside a path. So the library's folder is opened as a
// descriptor N, and the path begins with "/proc/self/fd/N/".
Descriptor folder_of(const std::string& library) {
  const std::size_t slash = library.rfind('/');
  if (slash == std::string::npos) return {};
  return Descriptor(open(library.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

// Returns this process's environment, with `libraries` before the libraries that the process itself preloads.
std::vector<std::string> environment_with(const std::vector<std::string>& libraries,
                                          const std::vector<Descriptor>& folders) {
  std::string preload(kPreload);
  for (std::size_t k = 0; k < libraries.size(); k++) {
    const std::string& library = libraries[k];
    if (folders[k]) preload += text("/proc/self/fd/", folders[k].get(), "/");
    preload += library.substr(folders[k] ? library.rfind('/') + 1 : 0) + ":";
  }
  std::vector<std::string> all;
  for (char** each = environ; *each; each++) {
    const std::string_view variable = *each;
    if (variable.starts_with(kPreload))
      preload += variable.substr(kPreload.size());
    else
      all.emplace_back(variable);
  }
  all.push_back(std::move(preload));
  return all;
}

// Starts a program that does nothing, with these folders open. Returns -1 if the program cannot be started.
pid_t start(std::vector<std::string> environment, const std::vector<Descriptor>& folders) {
  std::vector<char*> variables;
  for (std::string& variable : environment) variables.push_back(variable.data());
  variables.push_back(nullptr);
  std::string program = "/bin/true";
  char* const arguments[] = {program.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, standard, "/dev/null", O_RDWR, 0);
  for (const Descriptor& folder : folders)  // duplicated to its own number, so that it stays open in the program
    if (folder) posix_spawn_file_actions_adddup2(&actions, folder.get(), folder.get());
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, variables.data());
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? pid : -1;
}

// Returns true if the process has ended, or if the program itself has already waited for all its children.
bool has_ended(pid_t pid) {
  return waitpid(pid, nullptr, WNOHANG) != 0;
}

bool ends(pid_t pid, std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kNap{2};
  const auto end = steady_clock::now() + limit;
  while (!has_ended(pid)) {
    if (steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kNap);
  }
  return true;
}

}  // namespace

bool loading_ends(const std::vector<std::string>& libraries, std::chrono::milliseconds limit) {
  constexpr std::chrono::milliseconds kLastLimit{1000};  // limit for a process that hangs in the kernel
  std::vector<Descriptor> folders;
  for (const std::string& library : libraries) folders.push_back(folder_of(library));
  const pid_t pid = start(environment_with(libraries, folders), folders);
  if (pid < 0 || ends(pid, limit)) return true;
  kill(pid, SIGKILL);
  ends(pid, kLastLimit);
  return false;
}

}  // namespace anello::gpu
