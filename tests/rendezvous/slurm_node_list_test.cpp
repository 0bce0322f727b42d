#include "rendezvous/join/slurm_node_list.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <functional>

namespace anello::rendezvous {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::configuration);
    return error.what();
  }
  return "accepted";
}

TEST(SlurmNodeList, IsExpanded) {
  const auto nodes = [](const char* list) { return expand_slurm_nodes("NODES", list); };
  EXPECT_THAT(nodes("h0"), ElementsAre("h0"));
  EXPECT_THAT(nodes("n[12]"), ElementsAre("n12"));
  EXPECT_THAT(nodes("login1,h[0-1]"), ElementsAre("login1", "h0", "h1"));
  EXPECT_THAT(nodes("h[0-2,5],gpu07,n[08-11]-ib"),
              ElementsAre("h0", "h1", "h2", "h5", "gpu07", "n08-ib", "n09-ib", "n10-ib", "n11-ib"));
  EXPECT_THAT(nodes("r[1-2]n[1,3]"), ElementsAre("r1n1", "r1n3", "r2n1", "r2n3"));
  EXPECT_THAT(nodes("n[99-101].cluster"), ElementsAre("n99.cluster", "n100.cluster", "n101.cluster"));
  EXPECT_THAT(expand_slurm_counts("COUNTS", "2(x3),1"), ElementsAre(2, 2, 2, 1));
}

TEST(SlurmNodeList, WhatCannotBeUnderstoodIsRefusedWithItsVariable) {
  for (const char* list : {"", ",", "h[", "h]", "h[]", "h[1-", "h[2-1]", "h[a-b]", "h[1,]", "h[[1]]", "h1,,h2",
                           "h[1-999999999]", "h[0-9999]n[0-9999]"})
    EXPECT_THAT(refusal([&] { expand_slurm_nodes("NODES", list); }), HasSubstr("NODES='" + std::string(list) + "'"));
  for (const char* list : {"", "x", "2(x", "2(x)", "2(x3", "0", "2(x0)", "2,,1", "-1", "2(x3)4", "1(x65536),1"})
    EXPECT_THAT(refusal([&] { expand_slurm_counts("COUNTS", list); }), HasSubstr("COUNTS='" + std::string(list) + "'"));
}

}  // namespace
}  // namespace anello::rendezvous
