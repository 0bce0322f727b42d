#include "rendezvous/launch/cli/command_line.hpp"

#include <gtest/gtest.h>

#include "rendezvous/launch/cli/options.hpp"

namespace anello::launch {
namespace {

Job job_from(const Words& words) {
  Job job;
  EXPECT_EQ(parse_run(words, job), std::nullopt);
  return job;
}

TEST(CommandLine, TheProgramKeepsItsOwnOptions) {
  const Words program = {"train", "--grace_full", "-n", "7", "--", "--np"};
  for (Words words :
       {Words{"-n", "3", "--"}, Words{"-n", "3"}, Words{"-np", "3"}, Words{"--np=3", "--"}, Words{"-n3"}}) {
    words.insert(words.end(), program.begin(), program.end());
    const Job job = job_from(words);
    EXPECT_EQ(job.command, program);
    EXPECT_EQ(job.size, 3);
  }
}

TEST(CommandLine, UnderscoresAreDashes) {
  CLI::App app;
  std::string value;
  app.add_option("--some-value", value);
  EXPECT_EQ(parse(app, {"--some_value", "with_underscore"}), std::nullopt);
  EXPECT_EQ(value, "with_underscore");
  EXPECT_EQ(parse(app, {"--some_value=a_b"}), std::nullopt);
  EXPECT_EQ(value, "a_b");
}

TEST(CommandLine, OptionsOfOtherLaunchersNameOurs) {
  for (const std::string option : {"-p", "--ssh-port", "--ssh_port", "-ssh-port", "--ssh-port=22"}) {
    Job job;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(parse_run({"-n", "1", option, "22", "x"}, job), 2) << option;
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("is not an option here; write --ssh 'ssh -p PORT'"),
              std::string::npos)
        << option;
  }
}

// Python programs with current frameworks take some seconds to exit.
TEST(CommandLine, RanksHaveTenSecondsToEnd) {
  EXPECT_EQ(job_from({"-n", "1", "x"}).grace, std::chrono::seconds(10));
}

TEST(CommandLine, TimesAndFolders) {
  const Job job = job_from({"-n", "1", "--grace", "0.5", "--output", "some/folder", "x"});
  EXPECT_EQ(job.grace, std::chrono::milliseconds(500));
  EXPECT_EQ(job.output_folder, "some/folder");
  EXPECT_EQ(job.command, Words{"x"});
}

}  // namespace
}  // namespace anello::launch
