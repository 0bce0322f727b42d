// The comparison of all ranks' entries.
#include "ring/elastic/verification.hpp"

#include <gmock/gmock.h>

#include <anello/error.hpp>
#include <optional>

namespace anello::elastic {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Hashes = std::vector<Hash>;

constexpr Hash kA{0, 0xa}, kB{0, 0xb}, kC{0, 0xc};
const std::vector<std::string> kNames = {"w", "step"};

std::optional<Error> difference(const std::vector<Hashes>& hashes, const Decision& decision) {
  try {
    require_equal_entries(kNames, hashes, decision);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::diverged);
    return error;
  }
  return {};
}

TEST(Verification, EqualEntries) {
  EXPECT_FALSE(difference({{kA, kB}, {kA, kB}, {kA, kB}}, {.revision = 3, .sources = {0, 2}, .receivers = {1}}));
}

TEST(Verification, AReceiverThatDiffers) {
  const auto error = difference({{kA, kB}, {kA, kC}}, {.revision = 3, .sources = {0}, .receivers = {1}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 1);
  EXPECT_EQ(error->message(),
            "entry 'step' of the state differs at revision 3: rank 1 has hash 0000000000000000000000000000000c, rank 0 "
            "has hash 0000000000000000000000000000000b; rank 0 sent something else, or load() and save() do not agree");
}

TEST(Verification, ManyReceiversThatDifferAreNoMajority) {
  const auto error =
      difference({{kB, kB}, {kB, kB}, {kC, kB}, {kA, kB}}, {.revision = 3, .sources = {3}, .receivers = {0, 1, 2}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 0);
  EXPECT_THAT(error->message(), HasSubstr("ranks 0, 1 have hash 0000000000000000000000000000000b, rank 3 has"));
}

// Ranks 3 to 5 have received their state from rank 0, so their agreement with it proves nothing.
TEST(Verification, ReceiversDoNotOutvoteSources) {
  const auto error = difference({{kB, kB}, {kA, kB}, {kA, kB}, {kB, kB}, {kB, kB}, {kB, kB}},
                                {.revision = 3, .sources = {0, 1, 2}, .receivers = {3, 4, 5}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), 0);
  EXPECT_THAT(error->message(), StartsWith("entry 'w' of the state differs at revision 3: rank 0 has hash"));
  EXPECT_THAT(error->message(), HasSubstr("ranks 1, 2 have hash"));
  EXPECT_THAT(error->message(), HasSubstr("their programs have computed different values"));
}

TEST(Verification, TwoSourcesWithoutAMajority) {
  const auto error = difference({{kA, kB}, {kB, kB}}, {.revision = 3, .sources = {0, 1}, .receivers = {}});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank(), -1);
}

}  // namespace
}  // namespace anello::elastic
