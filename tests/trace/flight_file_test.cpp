#include "ring/trace/flight_file.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/records.hpp"

namespace anello::trace {
namespace {

TEST(Flight, SaysWhatWasDoneAndWhatWasNot) {
  Signature signature{.generation = 1, .sequence = 7, .count = 100, .kind = Kind::allreduce, .dtype = DType::f32};
  const Record done = record_of(signature, "gradients", 1000, 2000);
  History world{0, "the world", {0, 1, 2}, {done}};
  world.records[0].ended = 3000;
  signature.sequence = 8;
  world.records.push_back(record_of(signature, "a name that is longer than forty bytes, by far", 4000, 5000));
  signature.sequence = 9;
  world.records.push_back(record_of(signature, "", 6000, 0));
  const TickClock::Scale microseconds({0, 0}, {1, 1000});  // a tick is one
  const FlightHead head{.job = "a \"job\"",
                        .host = "here",
                        .why = "rank 1 died",
                        .generation = 1,
                        .incarnation = 0xab,
                        .rank = 2,
                        .size = 3,
                        .unix_us = 1'000'000,
                        .now = {10'000, 10'000'000}};
  const auto json = nlohmann::json::parse(flight_json(head, microseconds, {world, {31, "group (0, 2)", {0, 2}, {}}}));
  EXPECT_EQ(json["job"], "a \"job\"");
  EXPECT_EQ(json["why"], "rank 1 died");
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["incarnation"], "ab");
  EXPECT_EQ(json["groups"][1]["id"], "1f");
  EXPECT_EQ(json["groups"][1]["group"], "group (0, 2)");
  EXPECT_EQ(json["groups"][1]["members"], (std::vector<int>{0, 2}));
  EXPECT_TRUE(json["groups"][1]["operations"].empty());
  const auto& operations = json["groups"][0]["operations"];
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(operations[0]["operation"], "allreduce #7 (sum of 100 f32)");
  EXPECT_EQ(operations[0]["name"], "gradients");
  EXPECT_EQ(operations[0]["state"], "done");
  EXPECT_EQ(operations[0]["queued_us"], 991'000);
  EXPECT_EQ(operations[0]["begun_us"], 992'000);
  EXPECT_EQ(operations[0]["ended_us"], 993'000);
  EXPECT_EQ(operations[1]["state"], "begun");
  EXPECT_EQ(operations[1]["name"], "a name that is longer than forty bytes, ");
  EXPECT_TRUE(operations[1]["ended_us"].is_null());
  EXPECT_EQ(operations[2]["state"], "queued");
  EXPECT_EQ(operations[2]["sequence"], 9);
  EXPECT_TRUE(operations[2]["begun_us"].is_null());
}

}  // namespace
}  // namespace anello::trace
