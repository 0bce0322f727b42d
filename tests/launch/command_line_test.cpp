#include "rendezvous/launch/cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <anello/error.hpp>

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

TEST(CommandLine, TheFormOfTorchrunIsAnElasticJob) {
  const auto elastic_job = [](Words hosts) {
    hosts.insert(hosts.end(), {"--nproc-per-node", "8", "--max-restarts=3", "--rdzv-id", "7", "--rdzv_backend=c10d",
                               "--rdzv-endpoint", "h0:29400", "train", "--rdzv-id"});
    return job_from(hosts);
  };
  const Job many = elastic_job({"--nnodes", "1:4", "-H", "h1,h2,h3,h4,h5"});
  EXPECT_EQ(many.command, (Words{"train", "--rdzv-id"}));
  EXPECT_EQ(many.elastic->min, 8);
  EXPECT_EQ(many.elastic->first, 32);
  EXPECT_EQ(many.elastic->max, 32);
  EXPECT_EQ(many.elastic->max_restarts, 3);
  EXPECT_EQ(many.layout.size(), 4u);
  EXPECT_EQ(many.layout.back().count, 8);
  EXPECT_EQ(elastic_job({"--nnodes=1:4", "-H", "h1,h2"}).elastic->first, 16);
  const Job here = elastic_job({"--nnodes", "1:1"});
  EXPECT_EQ(here.elastic->max, 8);
  EXPECT_FALSE(here.remote);
}

TEST(CommandLine, MistakesInTheFormOfTorchrunAreNamed) {
  const struct {
    Words options;
    std::string part;
  } cases[] = {
      {{"--nnodes", "1:4", "-N", "8"}, "--nnodes 1:4 needs the names of the hosts"},
      {{"--nnodes", "3:4", "-N", "8", "-H", "h1,h2"}, "--nnodes 3:4: there are only hosts h1 and h2"},
      {{"--nnodes", "4:1", "-N", "8", "-H", "h1"}, "the smaller number comes first"},
      {{"--nnodes", "1:2", "-H", "h1,h2"}, "needs --nproc-per-node P"},
      {{"--nnodes", "1:2", "-N", "gpu", "-H", "h1,h2"}, "--nproc-per-node"},
      {{"--nnodes", "1:2", "-N", "2", "-H", "h1,h2", "--min-np", "1"}, "leave out --min-np"},
      {{"--nnodes", "1:2", "-N", "2", "--node-rank", "0"}, "leave out --node-rank and --rendezvous"},
      {{"--nnodes", "2", "-N", "2", "--rdzv-endpoint", "h0:1"}, "with --nnodes N, write --rendezvous HOST:PORT"},
      {{"-n", "2", "--min-np", "1", "--blacklist-cooldown-range", "9", "3"}, "the smaller number comes first"},
      {{"-n", "2", "--reset-limit", "3"}, "are for elastic jobs: add --min-np N"}};
  for (auto [options, part] : cases) {
    options.emplace_back("x");
    Job job;
    try {
      parse_run(options, job);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), ::testing::HasSubstr(part));
    }
  }
}

TEST(CommandLine, WithoutANumberAnElasticJobBeginsWithAtMostItsMaximum) {
  EXPECT_EQ(job_from({"-H", "h1:4,h2:4", "--max-np", "6", "x"}).elastic->first, 6);
}

TEST(CommandLine, TimesAndFolders) {
  const Job job = job_from({"-n", "1", "--grace", "0.5", "--output", "some/folder", "x"});
  EXPECT_EQ(job.grace, std::chrono::milliseconds(500));
  EXPECT_EQ(job.output_folder, "some/folder");
  EXPECT_EQ(job.command, Words{"x"});
}

}  // namespace
}  // namespace anello::launch
