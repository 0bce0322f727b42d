#include "ring/base/file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <filesystem>

#include "ring/base/text.hpp"
#include "tests/support/scratch.hpp"

namespace anello {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string refusal(const std::string& path) {
  try {
    replace_file(path, "new");
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::file);
    return error.what();
  }
}

TEST(ReplaceFile, ReplacesWhatLinksName) {
  const Scratch scratch;
  fs::create_directory(scratch / "far");
  fs::create_symlink("far/link", scratch / "first");
  fs::create_symlink("file", scratch / "far/link");
  for (const std::string content : {"not there before", "old", "new"}) {
    replace_file(scratch / "first", content, ReadableBy::all, Until::on_disk);
    EXPECT_EQ(bytes_of(scratch / "far/file"), content);
    EXPECT_TRUE(fs::is_symlink(scratch / "first") && fs::is_symlink(scratch / "far/link"));
    EXPECT_FALSE(fs::is_symlink(scratch / "far/file"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch / "far"), {}), 2) << "nothing else is left";
}

TEST(ReplaceFile, RefusesLinksInACircle) {
  const Scratch scratch;
  fs::create_symlink("second", scratch / "first");
  fs::create_symlink("first", scratch / "second");
  EXPECT_THAT(refusal(scratch / "first"), HasSubstr("first' cannot be written: Too many levels of symbolic links"));
  EXPECT_TRUE(fs::is_symlink(scratch / "first"));
}

TEST(ReplaceFile, RefusesAnOpenFile) {
  const Scratch scratch;
  const Descriptor file(open((scratch / "output").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  write_all(file, "output", "printed");
  fs::create_symlink(text("/proc/self/fd/", file.get()), scratch / "stdout");
  EXPECT_THAT(refusal(scratch / "stdout"), HasSubstr("stdout' cannot be written: it is an open file"));
  EXPECT_TRUE(fs::is_symlink(scratch / "stdout"));
  EXPECT_EQ(bytes_of(scratch / "output"), "printed");
}

}  // namespace
}  // namespace anello
