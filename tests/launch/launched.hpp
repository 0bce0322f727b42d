// `anello run` as tests call it.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace anello::launch {

using Words = std::vector<std::string>;
using std::chrono::milliseconds;
using testing::Outcome;
using testing::Process;
using testing::Surroundings;

inline Words anello(Words words) {
  words.insert(words.begin(), ANELLO_PROGRAM);
  return words;
}

// Each rank runs a shell script.
inline Words ranks(int count, const std::string& script, Words options = {}) {
  Words words = {"run", "-n", std::to_string(count)};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return anello(words);
}

// The launcher's messages depend on the cores of this machine only in one line.
inline std::string without_crowding(const std::string& err) {
  std::string out;
  for (const std::string& line : testing::lines(err))
    if (line.find(" ranks share ") == std::string::npos) out += line + "\n";
  return out;
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) found++;
  return found;
}

// Returns a variable of another process's environment; empty if there is no such variable or no such process.
inline std::string variable_of_process(pid_t pid, const std::string& name) {
  std::ifstream environment("/proc/" + std::to_string(pid) + "/environ");
  for (std::string entry; std::getline(environment, entry, '\0');)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return "";
}

// Returns the process of an elastic job that runs at this place; -1: there is none.
inline pid_t process_at(const Process& launcher, int place) {
  for (const pid_t pid : launcher.marked())
    if (variable_of_process(pid, "ANELLO_PLACE") == std::to_string(place)) return pid;
  return -1;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace anello::launch
