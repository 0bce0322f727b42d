// Jobs on several hosts, with agents that a fake ssh starts on this host.
#pragma once
#include <gmock/gmock.h>
#include <sys/types.h>

#include <algorithm>
#include <anello/error.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "ring/base/text.hpp"
#include "ring/net/hmac.hpp"
#include "tests/launch/launched.hpp"
#include "tests/support/scratch.hpp"

namespace anello::launch {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class Agents : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      net::require_authentication("any");
    } catch (const Error&) {
      GTEST_SKIP() << "this build has no authentication, so that other hosts cannot be used";
    }
    std::filesystem::create_symlink(FAKE_SSH, scratch_ / "ssh");
    scratch_.put("anello", "#!/bin/sh\necho anello: this is Anello 0.0.1, but ... >&2\nexit 2\n");
    std::filesystem::permissions(scratch_ / "anello", std::filesystem::perms::owner_all);
  }
  Surroundings around(std::vector<std::string> more = {}) const {
    more.push_back("ANELLO_SSH=" + (scratch_ / "ssh").string());
    more.push_back("FAKE_STALE=" + scratch_.path().string());
    return {.environment = more};
  }
  static Words job(const std::string& hosts, const std::string& script, Words options = {}) {
    Words words = {"run", "-H", hosts};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", script});
    return anello(words);
  }
  void expect_all_lines_of_a_stopped_launcher(std::size_t lines, milliseconds stopped) const {
    Process running(job("h1", "echo up; sleep 1; seq 1 " + std::to_string(lines) + "; echo all"), around());
    ASSERT_TRUE(running.says("[0] up"));
    running.signal(SIGSTOP);
    std::this_thread::sleep_for(stopped);
    running.signal(SIGCONT);
    EXPECT_TRUE(running.says("[0] all")) << running.err();
    EXPECT_EQ(running.wait(), 0) << running.err();
    EXPECT_EQ(testing::lines(running.out()).size(), lines + 2);
  }
  // Returns the processes whose command line begins with these words.
  static std::vector<pid_t> processes(const Process& job, const std::string& words) {
    std::vector<pid_t> out;
    for (const pid_t pid : job.marked()) {
      std::string line = bytes_of("/proc/" + std::to_string(pid) + "/cmdline");
      std::ranges::replace(line, '\0', ' ');
      if (contains(line, words)) out.push_back(pid);
    }
    return out;
  }

  Scratch scratch_;
};

}  // namespace anello::launch
