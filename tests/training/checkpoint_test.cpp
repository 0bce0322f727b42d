// A checkpoint that rank 0 writes for all.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <anello/checkpoint.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/scratch.hpp"
#include "tests/support/worlds.hpp"

namespace anello {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SaveOnRank0, ReplacesTheFileBeforeAnyRankReturns) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "checkpoint";
  run_world(3, [&](World& world) {
    for (const std::string step : {"first", "second"}) {
      save_on_rank_0(world, path, world.rank() == 0 ? step : "another rank's");
      EXPECT_EQ(content(path), step);
      world.barrier();
    }
  });
  const auto files = std::filesystem::directory_iterator(scratch.path());
  EXPECT_EQ(std::distance(files, {}), 1);
}

TEST(SaveOnRank0, TellsAllRanksWhyItCouldNotAndTheWorldGoesOn) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "missing" / "checkpoint";
  run_world(3, [&](World& world) {
    try {
      save_on_rank_0(world, path, "bytes");
      ADD_FAILURE() << "was saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::file);
      EXPECT_EQ(error.rank(), 0);
      EXPECT_THAT(error.what(), StartsWith("the checkpoint of rank 0 was not saved: "));
      EXPECT_THAT(error.what(), HasSubstr(path.string()));
    }
    world.barrier();
  });
}

// Root could really replace /dev/null.
TEST(SaveOnRank0, ReplacesNoPipe) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  run_world(2, [&](World& world) {
    try {
      save_on_rank_0(world, path, "bytes");
      ADD_FAILURE() << "was saved";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::file);
      EXPECT_THAT(error.what(), HasSubstr("it is not a regular file"));
    }
  });
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

}  // namespace
}  // namespace anello
