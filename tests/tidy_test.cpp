// Checks the project's rules on this tree, and each rule on a tree that breaks it.
#include <gmock/gmock.h>

#include "tests/support/tidy.hpp"

namespace anello::tidy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<File>& project() {
  static const std::vector<File> tree = read_tree(ANELLO_SOURCE_DIR);
  return tree;
}

TEST(Tidy, TheTreeIsRead) {
  EXPECT_GT(project().size(), 50u);
  const auto is_this = [](const File& file) { return file.path == "tests/tidy_test.cpp"; };
  EXPECT_TRUE(std::any_of(project().begin(), project().end(), is_this));
}
TEST(Tidy, AsioAndCudaStayInTheirRooms) {
  EXPECT_THAT(foreign_names(project()), IsEmpty());
}
TEST(Tidy, IncludesFollowTheDirectionOfTheRooms) {
  EXPECT_THAT(wrong_direction(project()), IsEmpty());
}
TEST(Tidy, ThePictureOfTheRoomsIsTrue) {
  EXPECT_THAT(wrong_picture(project()), IsEmpty());
}
TEST(Tidy, EverySourceOfTheRingLiesInARoom) {
  EXPECT_THAT(loose_sources(project()), IsEmpty());
}
TEST(Tidy, EachRoomHasItsNamespace) {
  EXPECT_THAT(wrong_namespaces(project()), IsEmpty());
}
TEST(Tidy, TheEnvironmentIsReadInOnePlace) {
  EXPECT_THAT(environment_reads(project()), IsEmpty());
}
TEST(Tidy, NoTimeIsMeasuredByTheWallClock) {
  EXPECT_THAT(wall_clocks(project()), IsEmpty());
}
TEST(Tidy, EverySourceIsListed) {
  EXPECT_THAT(unlisted_sources(project()), IsEmpty());
}
TEST(Tidy, NoTwoTypesShareAName) {
  EXPECT_THAT(shared_names(project()), IsEmpty());
}
TEST(Tidy, TheWordsArePlain) {
  EXPECT_THAT(private_words(project()), IsEmpty());
}
// The number of hard comments in the tree. It may only fall: give a new comment a subject, and reword one nearby.
TEST(Tidy, HardCommentsBecomeFewer) {
  constexpr std::size_t kThereAre = 10;
  const Complaints found = hard_comments(project());
  EXPECT_GE(found.size(), kThereAre) << "they are fewer now: lower kThereAre";
  if (found.size() > kThereAre)
    for (const std::string& each : found) ADD_FAILURE() << each;
}
TEST(Tidy, NothingIsLeftOver) {
  EXPECT_THAT(leftovers(project()), IsEmpty());
}
TEST(Tidy, NoPathOfOneMachine) {
  EXPECT_THAT(machine_paths(project()), IsEmpty());
}
TEST(Tidy, AlgorithmsAreListedOnce) {
  EXPECT_THAT(algorithm_lists(project()), IsEmpty());
}
TEST(Tidy, FilesAreShort) {
  EXPECT_THAT(long_files(project()), IsEmpty());
}

TEST(TidyRules, AsioAndCudaOutside) {
  const std::vector<File> tree = {{"gpu/a.cpp", {"#include <nccl.h>"}},
                                  {"rendezvous/b.cpp", {"asio::io_context context;"}},
                                  {"ring/net/c.hpp", {"#include <asio/read.hpp>"}},
                                  {"ring/link/d.hpp", {"", "#include <asio.hpp>"}},
                                  {"trainer/e.cpp", {"asio::post(f);", "cudaMalloc(&p, 4);"}},
                                  {"tests/net/f.cpp", {"#include <asio/read.hpp>"}}};
  EXPECT_THAT(foreign_names(tree), ElementsAre(HasSubstr("ring/link/d.hpp:2: Asio"), HasSubstr("trainer/e.cpp:1: Asio"),
                                               HasSubstr("trainer/e.cpp:2: CUDA")));
}

TEST(TidyRules, IncludesAgainstTheDirection) {
  const std::vector<File> tree = {
      {"ring/base/a.cpp",
       {"#include <anello/error.hpp>", "#include <anello/world.hpp>", "#include \"ring/plan/p.hpp\"",
        "#include \"ring/plan/table.def\""}},
      {"ring/plan/b.cpp", {"#include \"ring/base/text.hpp\"", "#include \"ring/run/r.hpp\""}},
      {"ring/link/c.cpp", {"#include \"ring/plan/p.hpp\""}},
      {"ring/net/d.cpp", {"#include \"ring/link/l.hpp\"", "#include \"ring/world/world.hpp\""}},
      {"ring/world/e.cpp", {"#include \"ring/net/n.hpp\"", "#include \"rendezvous/client/client.hpp\""}},
      {"ring/agenda/h.cpp", {"#include \"ring/group/g.hpp\"", "#include \"ring/run/r.hpp\""}},
      {"trainer/cuda/b.cpp", {"#include \"gpu/device.hpp\"", "#include \"trainer/f.hpp\""}},
      {"trainer/f.cpp",
       {"#include <anello/gpu.hpp>", "#include \"trainer/g.hpp\"", "#include \"ring/base/text.hpp\"",
        "#include \"gpu/device.hpp\"", "#include \"trainer/cuda/b.hpp\""}},
      {"rendezvous/server/i.cpp",
       {"#include \"rendezvous/protocol/protocol.hpp\"", "#include \"rendezvous/client/client.hpp\""}},
      {"rendezvous/launch/output/j.cpp", {"#include \"rendezvous/launch/cli/options.hpp\""}},
      {"rendezvous/attic/k.cpp", {"#include \"rendezvous/launch/cli/options.hpp\""}},
      {"tests/g.cpp", {"#include \"bench/b.hpp\""}}};
  EXPECT_THAT(
      wrong_direction(tree),
      ElementsAre("ring/base/a.cpp:2: base may not include ring/include/anello/world.hpp",
                  "ring/base/a.cpp:3: base may not include ring/plan/p.hpp",
                  "ring/plan/b.cpp:2: plan may not include ring/run/r.hpp",
                  "ring/link/c.cpp:1: link may not include ring/plan/p.hpp",
                  "ring/net/d.cpp:2: net may not include ring/world/world.hpp",
                  "ring/world/e.cpp:2: world may not include rendezvous/client/client.hpp",
                  "ring/agenda/h.cpp:2: agenda may not include ring/run/r.hpp",
                  "trainer/f.cpp:3: trainer may not include ring/base/text.hpp",
                  "trainer/f.cpp:4: trainer may not include gpu/device.hpp",
                  "trainer/f.cpp:5: trainer may not include trainer/cuda/b.hpp",
                  "rendezvous/server/i.cpp:2: rendezvous/server may not include rendezvous/client/client.hpp",
                  "rendezvous/launch/output/j.cpp:1: launch/output may not include rendezvous/launch/cli/options.hpp",
                  "rendezvous/attic/k.cpp: rendezvous/attic is not one of the rooms in tests/support/rooms.cpp"));
}

TEST(TidyRules, APictureThatIsNotTrue) {
  const std::vector<File> tree = {{"ring/README.md", {"run: link, plan"}},
                                  {"ring/run/a.cpp", {}},
                                  {"docs/notes/starting.md", {"launch/job: net"}},
                                  {"rendezvous/launch/output/c.cpp", {}},
                                  {"gpu/b.cpp", {}}};
  EXPECT_THAT(
      wrong_picture(tree),
      testing::UnorderedElementsAre("ring/README.md: lacks the line 'run: link, plan, trace'",
                                    "docs/notes/starting.md: lacks the line 'launch/output: launch/base, launch/job'"));
}

TEST(TidyRules, SourcesAtTheTopOfTheRing) {
  EXPECT_THAT(loose_sources({{"ring/a.cpp", {}}, {"ring/net/b.cpp", {}}, {"ring/README.md", {}}, {"gpu/c.cpp", {}}}),
              ElementsAre("ring/a.cpp: belongs in a room of ring/"));
}

TEST(TidyRules, ARoomOutsideItsNamespace) {
  const auto file = [](const char* path, const char* line) { return File{path, {"#pragma once", line}}; };
  EXPECT_THAT(wrong_namespaces(
                  {file("ring/net/a.hpp", "namespace anello {"), file("ring/net/b.hpp", "namespace anello::net {"),
                   file("ring/base/c.hpp", "namespace anello {"), file("ring/net/e.hpp", "namespace anello::shm {"),
                   file("ring/group/group_impl.hpp", "namespace anello {"),
                   file("ring/include/anello/d.hpp", "namespace anello {")}),
              ElementsAre("ring/net/a.hpp:2: belongs in namespace anello::net",
                          "ring/net/e.hpp:2: belongs in namespace anello::net"));
}

TEST(TidyRules, ASecondReadOfTheEnvironment) {
  const File one{"ring/base/config.cpp", {"const char* value = std::getenv(variable);"}};
  EXPECT_THAT(environment_reads({one}), IsEmpty());
  EXPECT_THAT(environment_reads({one, {"trainer/a.cpp", {"auto* home = getenv (\"HOME\");"}}}),
              ElementsAre(HasSubstr("trainer/a.cpp:1")));
  EXPECT_THAT(environment_reads({{"ring/base/config.cpp", {}}}), ElementsAre(HasSubstr("is not there")));
}

TEST(TidyRules, RoomsInCircles) {
  EXPECT_THAT(rooms_in_circles({{"a", {}}, {"b", {"a"}}, {"c", {"a", "b"}}}), IsEmpty());
  EXPECT_EQ(rooms_in_circles({{"a", {}}, {"b", {"a", "d"}}, {"c", {"b"}}, {"d", {"c"}}}).size(), 3u);
}

TEST(TidyRules, WordsThatAreNotPlain) {
  EXPECT_THAT(private_words({{"ring/a.hpp", {"// Whoever waits, drives.", "// Waits."}},
                             {"gpu/README.md", {"`anello_strangers_total` counts connections", "strangers knock"}},
                             {"CONTRIBUTING.md", {"No \"whoever\"."}},
                             {"tests/a.cpp", {"// nobody"}}}),
              ElementsAre(HasSubstr("ring/a.hpp:1"), HasSubstr("gpu/README.md:2")));
}

TEST(TidyRules, HardComments) {
  const std::vector<std::string> lines = {"// Of the tensor.",      "  // What it has.",       "# The same for all.",
                                          "int x;  // it knows it", "// Rank 0 tells others.", "known = 1;",
                                          "// The tensor's."};
  EXPECT_EQ(hard_comments({{"ring/a.hpp", lines}}).size(), 5u);
  EXPECT_THAT(hard_comments({{"ring/README.md", lines}}), IsEmpty());
}

TEST(TidyRules, AClockThatMayBeSet) {
  const std::string wait = "until = std::chrono::system_clock::now() + limit;";
  EXPECT_THAT(wall_clocks({{"ring/base/wall_clock.hpp", {wait}}, {"tests/a.cpp", {wait}}}), IsEmpty());
  EXPECT_THAT(wall_clocks({{"ring/net/a.cpp", {"", wait}}}), ElementsAre(HasSubstr("ring/net/a.cpp:2")));
}

TEST(TidyRules, SourcesThatNobodyKnows) {
  const std::vector<File> tree = {
      {"ring/CMakeLists.txt", {"anello_library(anello_world", "  SOURCES world.cpp sub/listed.cpp)"}},
      {"ring/world.cpp", {"#include \"ring/used.hpp\""}},
      {"ring/sub/listed.cpp", {}},
      {"ring/sub/forgotten.cpp", {}},
      {"ring/orld.cpp", {}},
      {"ring/used.hpp", {}},
      {"ring/unused.hpp", {}}};
  EXPECT_THAT(unlisted_sources(tree),
              ElementsAre("ring/sub/forgotten.cpp: no CMakeLists.txt lists it",
                          "ring/orld.cpp: no CMakeLists.txt lists it", "ring/unused.hpp: nobody includes it"));
}

TEST(TidyRules, TypesOfOneName) {
  const auto file = [](const char* path, std::vector<std::string> inside) {
    inside.insert(inside.begin(), "namespace anello {");
    inside.push_back("}  // namespace anello");
    return File{path, inside};
  };
  const std::vector<File> tree = {
      file("ring/a.hpp", {"class One {", "struct Two final : Base {", "class Three;"}),
      file("ring/b.cpp", {"namespace {", "class One {", "}  // namespace", "class One;", "struct Two {"}),
      file("ring/c.hpp", {"namespace inner {", "enum class One {", "}  // namespace inner", "enum class One : int {"}),
      file("ring/d.cpp", {"struct World::One {", "  struct One {", "struct Three {"})};
  EXPECT_THAT(shared_names(tree), ElementsAre("ring/b.cpp:6: anello::Two is also in ring/a.hpp",
                                              "ring/c.hpp:5: anello::One is also in ring/a.hpp"));
}

TEST(TidyRules, Leftovers) {
  const std::string note =
      "// FIX"
      "ME: later";
  EXPECT_THAT(leftovers({{"bench/a.sh", {"mktemp /tmp/anello.XXXXXX", note}}}), ElementsAre(HasSubstr("bench/a.sh:2")));
}

TEST(TidyRules, PathsOfOneMachine) {
  const std::string bad =
      "open(\"/ho"
      "me/someone/data\")";
  EXPECT_THAT(machine_paths({{"bench/a.cpp", {"a / b / c; // ring/net and/or x/y", "open(\"/dev/null\")", bad}}}),
              ElementsAre(HasSubstr("bench/a.cpp:3")));
}

TEST(TidyRules, ASecondListOfAlgorithms) {
  const File table{"ring/algorithms/algorithms.def", {"ANELLO_ALGORITHM(ring, 1, 0)", "ANELLO_ALGORITHM(star, 2, 1)"}};
  const std::vector<std::string> list = {"for (const Algorithm each : {Algorithm::ring,", "     Algorithm::star})"};
  const std::vector<std::string> names = {"Values(\"star\"" + std::string(", \"ring\")")};
  const std::vector<std::string> others = {"{\"auto\", \"ring\"}, {\"ring\", \"ring_chunked\"}",
                                           "a == Algorithm::ring || a == Algorithm::star"};
  EXPECT_THAT(algorithm_lists({table, {"ring/algorithms/selection.cpp", list}, {"tests/a.cpp", others}}), IsEmpty());
  EXPECT_THAT(algorithm_lists({table, {"tests/a.cpp", list}, {"bench/b.cpp", names}}),
              ElementsAre(HasSubstr("tests/a.cpp:1: take all_algorithms()"), HasSubstr("bench/b.cpp:1")));
  EXPECT_THAT(algorithm_lists({{"tests/a.cpp", list}}), ElementsAre(HasSubstr("has no algorithms")));
}

TEST(TidyRules, LongFiles) {
  const std::vector<std::string> lines(401, "int x;");
  EXPECT_THAT(long_files({{"ring/a.cpp", lines}, {"README.md", lines}}),
              ElementsAre("ring/a.cpp: 401 lines, more than 400"));
}

}  // namespace
}  // namespace anello::tidy
