// Interesting inputs that fuzzers have found, each once unchanged and often with random changes. Without coverage as a
// guide this finds less than tests/fuzz.sh, but needs no Clang.
#include <gmock/gmock.h>

#include <fstream>

#include "ring/base/wire.hpp"
#include "ring/net/handshake.hpp"
#include "tests/fuzz/parsers.hpp"
#include "tests/support/random.hpp"

namespace anello::fuzz {

void PrintTo(const Parser& parser, std::ostream* out) {
  *out << parser.name;
}

namespace {

// One input a line, in hexadecimal.
std::vector<std::string> corpus(std::string_view parser) {
  std::ifstream file(text(ANELLO_CORPUS, "/", parser, ".hex"));
  std::vector<std::string> inputs;
  for (std::string line; std::getline(file, line);) {
    std::string& input = inputs.emplace_back();
    for (std::size_t k = 0; k + 1 < line.size(); k += 2) input += char(std::stoi(line.substr(k, 2), nullptr, 16));
  }
  return inputs;
}

std::string mutated(std::string input, Random& random) {
  for (std::uint64_t changes = random.from(1, 4); changes > 0; changes--) {
    const std::size_t at = input.empty() ? 0 : random.below(input.size());
    switch (random.below(5)) {
      case 0:
        if (!input.empty()) input[at] = char(input[at] ^ (1 << random.below(8)));
        break;
      case 1:
        if (!input.empty()) input[at] = char(random.next());
        break;
      case 2:
        input.insert(at, std::string(random.from(1, 8), char(random.next())));
        break;
      case 3:
        input.erase(at, random.from(1, 8));
        break;
      case 4:
        input.resize(at);
        break;
    }
  }
  return input;
}

class EachParser : public testing::TestWithParam<Parser> {};

TEST_P(EachParser, BearsWhatFuzzersHaveFoundAndWhatIsNearIt) {
  const std::vector<std::string> inputs = corpus(GetParam().name);
  ASSERT_GE(inputs.size(), 3u);
  for (const std::string& input : inputs) GetParam().parse(input);
  Random random(1);
  for (int k = 0; k < 4000 / kSlowdown; k++) GetParam().parse(mutated(random.one_of(inputs), random));
}
INSTANTIATE_TEST_SUITE_P(, EachParser, testing::ValuesIn(kParsers),
                         [](const auto& tested) { return std::string(tested.param.name); });

// A parser would reject inputs with an old version at their first bytes. If this test fails, replace the version in the
// file.
TEST(Corpus, OfTheHandshakeHasTheCurrentVersion) {
  const std::string current = Writer().raw("ANLO").u16(net::kProtocolVersion).bytes();
  long count = 0;
  for (const std::string& input : corpus("handshake")) count += input.starts_with(current);
  EXPECT_GT(count, 20);
}

}  // namespace
}  // namespace anello::fuzz
