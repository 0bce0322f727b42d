#include "rendezvous/launch/processes/start_problem.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

bool has_folder(const std::string& program) {
  return program.find('/') != std::string::npos;
}

// Returns the program's path; empty if PATH has no such file.
std::string path_of(const std::string& program) {
  if (has_folder(program)) return program;
  std::istringstream folders(environment("PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder.empty() ? program : folder + "/" + program;
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return {};
}

int why_denied(const std::string& path) {
  struct stat file {};
  struct statvfs mount {};
  if (stat(path.c_str(), &file) != 0) return errno == EACCES ? kFolderClosed : EACCES;
  if (S_ISDIR(file.st_mode)) return kIsFolder;
  if (statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC)) return kMountedNoexec;
  return S_ISREG(file.st_mode) && access(path.c_str(), X_OK) == 0 ? kInterpreterNotExecutable : EACCES;
}

}  // namespace

// If a folder of PATH may not be entered, exec() fails with EACCES, even for a program that is in no folder of PATH. So
// this function looks for the program itself.
int find_start_problem(int error, const std::string& program) {
  const std::string path = path_of(program);
  if (error == EACCES) return path.empty() ? ENOENT : why_denied(path);
  if (error == ENOENT && !path.empty() && access(path.c_str(), F_OK) == 0) return kInterpreterMissing;
  return error;
}

std::string describe_start_problem(int problem, const std::string& name, const std::string& where) {
  const std::string program = printable(name);
  switch (problem) {
    case ENOENT:
    case ENOTDIR:
      if (has_folder(program))
        return text("program not found", where, ": '", program, "' does not exist; check the path");
      return text("program not found", where, ": '", program, "' is not in PATH; for a program in this folder write ./",
                  program);
    case kInterpreterMissing:
      return text("the interpreter of '", program, "' was not found", where,
                  "; check its first line after #!, which may end with an invisible \\r, or install what it needs");
    case kInterpreterNotExecutable:
      return text("the interpreter of '", program, "' is not an executable file", where,
                  "; check its first line after #!");
    case kIsFolder:
      return text("'", program, "' is a folder", where, "; name the program in it");
    case kMountedNoexec:
      return text("'", program, "' is in a file system that is mounted with noexec", where,
                  "; copy it to another one, or start its interpreter: python3 ", program);
    case kFolderClosed:
      return text("'", program, "' cannot be reached", where,
                  ": you may not enter one of the folders in its path; this needs the permission x");
    case EACCES:
      return text("'", program, "' is not an executable file", where, "; to make it one, run chmod +x");
    case EAGAIN:
      return text("'", program, "' could not be started", where,
                  ": no more processes are allowed; raise the limit (ulimit -u, or that of the container), or start "
                  "fewer ranks");
    default:
      return text("'", program, "' could not be started", where, ": ", std::strerror(problem));
  }
}

int exit_code_of(int problem) {
  return problem == ENOENT || problem == ENOTDIR || problem == kInterpreterMissing ? kNotFound : kNotExecutable;
}

}  // namespace anello::launch
