// Runs the scripts of bench/ with fake programs, which only print the text that a test gives them.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/process.hpp"

namespace anello::bench {

using anello::testing::Outcome;
using anello::testing::run;

class Scripts : public ::testing::Test {
 protected:
  Scripts() {
    std::filesystem::create_directories(folder_);
    program("anello", "[ $2 != --bind ] || shift; export RANKS=$3; shift 4; exec \"$@\"");
    program("anello-bench-sentinel", "echo 40");
  }
  ~Scripts() override { std::filesystem::remove_all(folder_); }

  void program(const std::string& name, const std::string& script) {
    const auto path = folder_ / name;
    std::ofstream(path) << "#!/usr/bin/env bash\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  // Returns a line of results for each size of -s: medians out of place and in place, which are also the means unless
  // `mean` is given. Before these lines comes a line with the bytes that a call sent over loopback: a large number, as
  // with TCP.
  static std::string rows(const std::string& out_of_place, const std::string& in_place, const std::string& mean = "",
                          const std::string& sent = "1000000000") {
    const auto figures = [&](const std::string& median) {
      return median + " 0 0 0 1 " + (mean.empty() ? median : mean);
    };
    return "{ [[ $* != *--loopback* ]] || echo '# loopback: " + sent + " " + sent +
           " bytes a call'; list=$*; list=${list#* -s }; for size in $(tr , ' ' <<<\"${list%% *}\"); do echo \"  $size "
           "1 float sum " +
           figures(out_of_place) + " " + figures(in_place) + "\"; done; }";
  }
  Outcome scaling(const std::string& arguments) const { return script("scaling.sh", arguments); }
  Outcome compare(const std::string& arguments) const { return script("compare.sh", arguments); }
  Outcome overlap(const std::string& arguments) const { return script("overlap.sh", arguments); }
  Outcome busy(const std::string& arguments) const { return script("busy.sh", arguments); }
  Outcome idle(const std::string& arguments) const { return script("idle.sh", arguments); }
  Outcome startup(const std::string& arguments) const { return script("startup.sh", arguments); }
  Outcome netns(const std::string& arguments) const { return script("netns.sh", arguments); }
  Outcome peers(const std::string& arguments) const { return script("peers.sh", arguments); }
  Outcome pictures(const std::string& arguments) const { return script("pictures.sh", arguments, ""); }
  static std::string content(const std::filesystem::path& file) {
    std::ostringstream all;
    all << std::ifstream(file).rdbuf();
    return all.str();
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("anello_scripts_" + std::to_string(getpid()));

 private:
  Outcome script(const std::string& name, const std::string& arguments, const std::string& folder_flag = "-B ") const {
    return run({"bash", "-c",
                "PATH=" + folder_.string() + ":$PATH; exec bash " ANELLO_SOURCE_DIR "/bench/" + name + " " +
                    (folder_flag.empty() ? "" : folder_flag + folder_.string()) + " " + arguments});
  }
};

}  // namespace anello::bench
