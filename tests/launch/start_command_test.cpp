// The commands that start agents on other hosts.
#include "rendezvous/launch/job/start_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace anello::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<StartCommand> commands(Starter starter, std::vector<std::string> first, const std::string& program) {
  Job job;
  job.command = {"/opt/train", "--epochs", "3"};
  job.secret = "opensesame";
  job.layout = {{"me", 0, 2}, {"h2", 2, 2}};
  job.remote = RemoteStart{starter, std::move(first)};
  return start_commands(job, program, [](const std::string& name) { return name == "me"; });
}

TEST(StartCommands, OneForEachHostAndNoSshForThisOne) {
  const auto two = commands(Starter::ssh, {"/usr/bin/ssh", "-F", "config"}, "/opt/it's/anello");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_THAT(two[0].words, ElementsAre("/opt/it's/anello", "agent", "0"));
  EXPECT_TRUE(two[0].here && !two[1].here);
  const auto& words = two[1].words;
  EXPECT_THAT(words, Contains("BatchMode=yes"));
  EXPECT_EQ(words.at(words.size() - 2), "h2");
  EXPECT_EQ(two[1].shown, "/usr/bin/ssh -F config h2");
  EXPECT_THAT(words.back(), EndsWith(" '/opt/it'\\''s/anello' 1")) << "one word for the shell there";
}

TEST(StartCommands, OtherCommandsGetNoOptionsOfSsh) {
  EXPECT_THAT(commands(Starter::ssh, {"rsh"}, "/a")[1].words, ElementsAre("rsh", "h2", HasSubstr("exec /bin/sh -c ")));
  EXPECT_THAT(commands(Starter::qrsh, {"qrsh", "-inherit"}, "/a")[1].words,
              ElementsAre("qrsh", "-inherit", "h2", HasSubstr("exec /bin/sh -c ")));
}

TEST(StartCommands, SrunStartsAllAtOnce) {
  const auto one = commands(Starter::srun, {"srun"}, "/opt/anello");
  ASSERT_EQ(one.size(), 1u);
  EXPECT_THAT(one[0].hosts, ElementsAre(0, 1));
  EXPECT_THAT(one[0].words, ::testing::IsSupersetOf({std::string("--nodelist=me,h2"), std::string("--overlap"),
                                                     std::string("--ntasks-per-node=1"), std::string("/opt/anello"),
                                                     std::string("--wait=0"), std::string("--job-name=train")}));
}

TEST(StartCommands, HaveNoSecret) {
  for (const Starter starter : {Starter::ssh, Starter::srun, Starter::qrsh, Starter::blaunch})
    for (const StartCommand& command : commands(starter, {"start"}, "/opt/anello"))
      EXPECT_THAT(command.words, Not(Contains(HasSubstr("opensesame"))));
}

}  // namespace
}  // namespace anello::launch
