// Guards against slow growth: compares the number of instructions of an operation, counted by callgrind, with the
// record in instructions.txt.
#include <gmock/gmock.h>

#include <fstream>

#include "ring/base/text.hpp"
#include "tests/support/process.hpp"

namespace anello::run {
namespace {

constexpr double kAllowed = 1.1;
constexpr int kOperations = 20;

struct Record {
  std::string algorithm, ranks, bytes;
  double instructions = 0;
};
std::string text_of(const Record& record) {
  return text(record.algorithm, " ", record.ranks, " ", record.bytes);
}

std::vector<Record> records() {
  std::vector<Record> all;
  std::ifstream file(INSTRUCTIONS_RECORD);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    Record record;
    if (!line.starts_with("#") && fields >> record.algorithm >> record.ranks >> record.bytes >> record.instructions)
      all.push_back(record);
  }
  return all;
}

// Selects the same memcpy of the C library on every CPU of this kind, even if this CPU has more features.
constexpr const char* kBaseline =
    "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM";

// At its end callgrind prints "==1== Collected : 123456".
double counted(const Record& record) {
  const testing::Outcome outcome =
      testing::run({VALGRIND, "--tool=callgrind", "--toggle-collect=counted", "--callgrind-out-file=/dev/null",
                    INSTRUCTIONS, record.algorithm, record.ranks, record.bytes, std::to_string(kOperations)},
                   {.environment = {kBaseline}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  constexpr std::string_view kWord = "Collected : ";
  const std::size_t at = outcome.err.find(kWord);
  if (at == std::string::npos) {
    ADD_FAILURE() << outcome.err;
    return 0;
  }
  return std::stod(outcome.err.substr(at + kWord.size())) / kOperations;
}

TEST(Instructions, AnOperationTakesNoMoreThanIsOnRecord) {
  if (std::string_view(VALGRIND).empty()) GTEST_SKIP() << "valgrind is not here (Debian: apt-get install valgrind)";
  const std::vector<Record> all = records();
  EXPECT_GE(all.size(), 5U);
  for (const Record& record : all) {
    const double now = counted(record);
    EXPECT_GT(now, 0) << text_of(record);
    EXPECT_LE(now, record.instructions * kAllowed)
        << text_of(record) << " takes more instructions than on record; if it is worth it, write " << std::uint64_t(now)
        << " into tests/run/instructions.txt";
    std::cout << text_of(record) << ": " << std::uint64_t(now) << ", on record " << record.instructions << "\n";
  }
}

}  // namespace
}  // namespace anello::run
