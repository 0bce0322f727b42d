#include "ring/base/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <anello/error.hpp>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

namespace anello {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::configuration);
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << "one line";
    return error.message();
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

// Begins without any of our variables, and restores the environment afterwards.
class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    for (const SettingRow& row : setting_rows()) {
      const std::string variable(row.variable);
      if (const char* value = std::getenv(variable.c_str())) before_[variable] = value;
      unsetenv(variable.c_str());
    }
  }
  ~SettingsTest() override {
    for (const SettingRow& row : setting_rows()) unsetenv(std::string(row.variable).c_str());
    for (const auto& [variable, value] : before_) setenv(variable.c_str(), value.c_str(), 1);
  }
  static void set(std::string_view variable, const char* value) { setenv(std::string(variable).c_str(), value, 1); }
  static bool is_number(const SettingRow& row) {
    return row.fallback.find_first_not_of("-0123456789") == std::string_view::npos;
  }

 private:
  std::map<std::string, std::string> before_;
};

TEST(ParseNumber, TakesWholeNumbersInRange) {
  EXPECT_EQ(parse_number("-n", "1", 1, 8), 1);
  EXPECT_EQ(parse_number("-n", "8", 1, 8), 8);
  EXPECT_EQ(parse_number("x", "-3", -5, 5), -3);
  EXPECT_EQ(parse_number("x", "007", 0, 9), 7);
}

TEST(ParseNumber, RefusesEverythingElseByNameTextAndRange) {
  for (const char* wrong : {"", " ", "0", "9", "-1", "4x", " 4", "4 ", "+4", "4.0", "0x4", "four", "1e0",
                            "99999999999999999999", "-99999999999999999999"})
    EXPECT_EQ(refusal([&] { parse_number("-n", wrong, 1, 8); }),
              std::string("-n='") + wrong + "' is not a whole number from 1 to 8");
}

TEST(Environment, EmptyIsUnset) {
  setenv("ANELLO_TEST_VARIABLE", "", 1);
  EXPECT_EQ(environment("ANELLO_TEST_VARIABLE"), std::nullopt);
  setenv("ANELLO_TEST_VARIABLE", "x", 1);
  EXPECT_EQ(environment("ANELLO_TEST_VARIABLE"), "x");
  unsetenv("ANELLO_TEST_VARIABLE");
  EXPECT_EQ(environment("ANELLO_TEST_VARIABLE"), std::nullopt);
}

TEST_F(SettingsTest, WithoutVariablesTheDefaultsStand) {
  const Settings settings = Settings::from_environment(), fresh;
  EXPECT_EQ(settings.rank, fresh.rank);
  EXPECT_EQ(settings.size, -1);
  EXPECT_EQ(settings.start_timeout, milliseconds(60000));
  EXPECT_EQ(settings.algorithm, "auto");
  EXPECT_EQ(wire_settings(settings), wire_settings(fresh));
}

TEST_F(SettingsTest, VariablesAreRead) {
  set("ANELLO_RANK", "3");
  set("ANELLO_SIZE", "4");
  set("ANELLO_START_TIMEOUT", "1500");
  set("ANELLO_ALGORITHM", "star");
  set("ANELLO_IFACE", "");
  const Settings settings = Settings::from_environment();
  EXPECT_EQ(settings.rank, 3);
  EXPECT_EQ(settings.size, 4);
  EXPECT_EQ(settings.start_timeout, milliseconds(1500));
  EXPECT_EQ(settings.algorithm, "star");
  EXPECT_EQ(settings.iface, "");
}

TEST_F(SettingsTest, WhatDiffersFromTheDefaultsIsListed) {
  EXPECT_EQ(changed_settings(Settings()), "");
  Settings settings;
  settings.rank = 3;  // set by a launcher
  settings.transport = "tcp";
  settings.spin = 20;
  EXPECT_EQ(changed_settings(settings), "ANELLO_TRANSPORT=tcp, ANELLO_SPIN=20");
}

TEST_F(SettingsTest, MisspeltVariablesAreFoundWithTheNearestName) {
  setenv("ANELLO_SIZ", "2", 1);
  setenv("ANELLO_RANKS", "2", 1);
  setenv("ANELLO_NETNS", "a program's own", 1);
  setenv("ANELLO_LOK", "", 1);
  EXPECT_THAT(misspelt_settings(),
              testing::UnorderedElementsAre("ANELLO_SIZ is not a setting and is ignored; ANELLO_SIZE is one",
                                            "ANELLO_RANKS is not a setting and is ignored; ANELLO_RANK is one"));
  EXPECT_EQ(nearest_setting("ANELLO_TRANSPROT"), "ANELLO_TRANSPORT");
  EXPECT_EQ(nearest_setting("ANELLO_LOG_LEVEL"), "ANELLO_LOG");
  EXPECT_EQ(nearest_setting("ANELLO_STALL_TIMEOUT_SECONDS"), "ANELLO_STALL_TIME") << "the longest";
  EXPECT_EQ(nearest_setting("ANELLO_NETNS"), "");
  for (const char* variable : {"ANELLO_SIZ", "ANELLO_RANKS", "ANELLO_NETNS", "ANELLO_LOK"}) unsetenv(variable);
}

TEST_F(SettingsTest, EveryNumberRefusesWhatIsNone) {
  int numbers = 0;
  for (const SettingRow& row : setting_rows()) {
    if (!is_number(row)) continue;
    numbers++;
    for (const char* wrong : {"4x", "-2", "99999999999999999999", "1 "}) {
      set(row.variable, wrong);
      const std::string message = refusal([] { (void)Settings::from_environment(); });
      EXPECT_THAT(message, HasSubstr(std::string(row.variable) + "='" + wrong + "'"));
      EXPECT_THAT(message, HasSubstr("whole number from "));
    }
    unsetenv(std::string(row.variable).c_str());
  }
  EXPECT_GE(numbers, 5);
}

TEST_F(SettingsTest, LimitsAreInclusive) {
  set("ANELLO_SIZE", "1048576");
  EXPECT_EQ(Settings::from_environment().size, 1048576);
  set("ANELLO_SIZE", "1048577");
  EXPECT_THAT(refusal([] { (void)Settings::from_environment(); }), HasSubstr("from 1 to 1048576"));
  set("ANELLO_SIZE", "0");
  EXPECT_THAT(refusal([] { (void)Settings::from_environment(); }), HasSubstr("ANELLO_SIZE='0'"));
}

TEST_F(SettingsTest, OnlyWhatAffectsTheWireIsCompared) {
  const std::string usual = wire_settings(Settings());
  for (const SettingRow& row : setting_rows()) {
    const std::string line = std::string(row.variable) + "=";
    if (row.kind == "wire")
      EXPECT_THAT(usual, HasSubstr(line));
    else
      EXPECT_THAT(usual, Not(HasSubstr(line)));
  }
  Settings other;
  other.iface = "eth0";
  other.rank = 7;
  EXPECT_EQ(wire_settings(other), usual);
  other.slab_bytes = 4096;
  EXPECT_THAT(wire_settings(other), HasSubstr("ANELLO_SLAB_BYTES=4096\n"));
}

TEST_F(SettingsTest, TheTableIsWellFormed) {
  std::set<std::string_view> variables;
  for (const SettingRow& row : setting_rows()) {
    EXPECT_TRUE(variables.insert(row.variable).second) << row.variable << " stands there twice";
    EXPECT_EQ(row.variable.substr(0, 7), "ANELLO_");
    EXPECT_THAT((std::set<std::string_view>{"given", "local", "wire"}), testing::Contains(row.kind)) << row.variable;
    EXPECT_FALSE(row.sentence.empty()) << row.variable;
  }
}

TEST_F(SettingsTest, TheTableIsPrintedWholeForPeopleAndForMarkdown) {
  const std::string plain = settings_table(false), markdown = settings_table(true);
  for (const SettingRow& row : setting_rows()) {
    for (const std::string& table : {plain, markdown}) {
      EXPECT_THAT(table, HasSubstr(std::string(row.variable)));
      EXPECT_THAT(table, HasSubstr(std::string(row.sentence)));
    }
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = markdown.find('\n', begin)) != std::string::npos; begin = end + 1) {
    int bars = 0;
    for (std::size_t i = begin; i < end; i++) bars += markdown[i] == '|' && (i == 0 || markdown[i - 1] != '\\');
    EXPECT_EQ(bars, 5) << markdown.substr(begin, end - begin);
  }
}

}  // namespace
}  // namespace anello
