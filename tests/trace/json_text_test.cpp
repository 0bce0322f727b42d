#include "ring/trace/json_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace anello::trace {
namespace {

TEST(JsonText, IsReadBackAsItWas) {
  for (const std::string text : {"", "plain", "\"quotes\" and \\", "a\nb\tc\x01",
                                 "gr\xc3\xb6\xc3\x9f"
                                 "e",
                                 "\xe2\x82\xac", "\xf0\x9f\x92\x8d ring", "\x7f"})
    EXPECT_EQ(nlohmann::json::parse(json_text(text)), text);
  EXPECT_EQ(nlohmann::json::parse(json_text(std::string("a\0b", 3))), std::string("a\0b", 3));
}

TEST(JsonText, WhatIsNoUtf8IsReplaced) {
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(nlohmann::json::parse(json_text("a\xff"
                                            "b")),
            "a" + bad + "b");
  EXPECT_EQ(nlohmann::json::parse(json_text("cut \xe2\x82")), "cut " + bad + bad);
  EXPECT_EQ(nlohmann::json::parse(json_text("\xc0\xaf")), bad + bad) << "overlong";
  EXPECT_EQ(nlohmann::json::parse(json_text("\xed\xa0\x80")), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(nlohmann::json::parse(json_text("\xf4\x90\x80\x80")), bad + bad + bad + bad) << "beyond U+10FFFF";
}

// Every string of two bytes.
TEST(JsonText, IsAlwaysJson) {
  for (int a = 0; a < 256; a++)
    for (int b = 0; b < 256; b++)
      ASSERT_TRUE(nlohmann::json::accept(json_text(std::string{char(a), char(b)}))) << a << " " << b;
}

}  // namespace
}  // namespace anello::trace
