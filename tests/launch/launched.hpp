// `anello run` as tests call it.
#pragma once
#include <gtest/gtest.h>

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

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace anello::launch
