// The reason why a program could not be started: an errno, or a number of this header if the errno of exec() is too
// vague.
#pragma once
#include <string>

namespace anello::launch {

enum StartProblem : int {
  kIsFolder = 100000,
  kMountedNoexec,
  kFolderClosed,
  kInterpreterMissing,
  kInterpreterNotExecutable,
};

// Finds the reason on this host, after exec() has failed with `error`. Unless `program` contains a slash, it is looked
// up in PATH.
int find_start_problem(int error, const std::string& program);

// Returns a sentence with the remedy. `where`: " on HOST", or empty. Pure.
std::string describe_start_problem(int problem, const std::string& program, const std::string& where);

// Returns the exit code that shells use: 127 if the program does not exist, 126 if it cannot be executed. Pure.
int exit_code_of(int problem);

inline constexpr int kWrongUsage = 2, kNotExecutable = 126, kNotFound = 127;

// True for the exit code of a program that would fail again in the same way. Pure.
inline bool is_wrong_usage(int exit_code) {
  return exit_code == kWrongUsage || exit_code == kNotExecutable || exit_code == kNotFound;
}

}  // namespace anello::launch
