// What the README repeats from the code is what the code says. Its programs are built by tests/consumer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ring/base/config.hpp"

namespace anello {
namespace {

std::string readme() {
  std::ifstream in(std::filesystem::path(ANELLO_SOURCE_DIR) / "README.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Readme, TheSettingsAreTheOnesOfTheTable) {
  const std::string text = readme(), opening = "<!-- settings -->\n";
  const std::size_t begin = text.find(opening), end = text.find("<!-- end of settings -->");
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t table = begin + opening.size();
  EXPECT_EQ(text.substr(table, end - table), settings_table(true)) << "`anello settings --markdown` prints the table";
}

TEST(Readme, EveryRoomIsOnTheMap) {
  const std::string text = readme();
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(ANELLO_SOURCE_DIR) / "ring")) {
    if (!std::filesystem::exists(entry.path() / "CMakeLists.txt")) continue;
    EXPECT_NE(text.find("`ring/" + entry.path().filename().string() + "`"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace anello
