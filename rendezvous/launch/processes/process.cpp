#include "rendezvous/launch/processes/process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/job/environment.hpp"
#include "rendezvous/launch/processes/start_problem.hpp"

namespace anello::launch {
namespace {

constexpr int kClear = 16;  // higher than all descriptor numbers that the program gets

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

// First moves all sources above the targets, so that no source is overwritten before it is in its place.
bool place_descriptors(const Program& program) {
  constexpr int kCount = 5;
  const int sources[kCount] = {program.in, program.out, program.err, program.secret, program.last_words};
  int moved[kCount];
  for (int i = 0; i < kCount; i++) {
    moved[i] = sources[i] < 0 ? -1 : fcntl(sources[i], F_DUPFD_CLOEXEC, kClear);
    if (sources[i] >= 0 && moved[i] < 0) return false;
  }
  static_assert(kSecretDescriptor == 3 && kLastWordsDescriptor == 4);
  for (int i = 0; i < kCount; i++)
    if (moved[i] >= 0 && dup2(moved[i], i) < 0) return false;
  return true;
}

[[noreturn]] void become(const Program& program, char** argv, char** envp, pid_t parent, int failure) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before prctl()
  failure = fcntl(failure, F_DUPFD_CLOEXEC, kClear);
  const bool bound = !program.cores || sched_setaffinity(0, sizeof *program.cores, program.cores) == 0;
  if (bound && place_descriptors(program)) {
    set_open_files_limit(program.open_files_limit);
    sigprocmask(SIG_SETMASK, &program.signal_mask, nullptr);
    execvpe(argv[0], argv, envp);
  }
  const int error = errno;
  if (write(failure, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

}  // namespace

Started start(const Program& program) {
  const std::vector<char*> argv = pointers(program.command), envp = pointers(program.environment);
  Pipe failure = make_pipe();
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return {-1, errno};
  if (pid == 0)
    become(program, const_cast<char**>(argv.data()), const_cast<char**>(envp.data()), parent, failure.write.get());
  setpgid(pid, pid);  // called here too, because a signal to the group may come before the child calls setpgid()
  failure.write.close();
  int error = 0;
  ssize_t got;
  do got = read(failure.read.get(), &error, sizeof error);
  while (got < 0 && errno == EINTR);
  if (got != sizeof error) return {pid, 0};
  waitpid(pid, nullptr, 0);
  return {-1, find_start_problem(error, program.command[0])};
}

void rename_process(char** argv, const std::string& name, const std::string& title) {
  prctl(PR_SET_NAME, name.c_str());
  char* end = argv[0];
  for (char** word = argv; *word == end; word++) end += std::strlen(*word) + 1;
  const std::size_t room = std::size_t(end - argv[0]);
  std::memset(argv[0], 0, room);
  std::memcpy(argv[0], title.data(), std::min(room - 1, title.size()));
}

}  // namespace anello::launch
