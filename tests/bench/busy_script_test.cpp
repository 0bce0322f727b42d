// bench/busy.sh: its arguments, its table, and programs that fail.
#include <gmock/gmock.h>

#include "tests/bench/scripts.hpp"

namespace anello::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Scripts, BusyPutsLibrariesBesideEachOther) {
  const std::string print = R"(words=$*; echo "# of $words"; case $words in *"--threads 8 --nice 5 --tensors "*) )";
  program("anello-bench", print + R"(echo "  8 5 4 4096 10 20 30 40" ;; esac)");
  program("anello-bench-gloo", print + R"(echo "  8 5 4 4096 50 60 70 80" ;; esac)");
  const Outcome outcome = busy("-c 8 -t tcp -r 2 -p gloo");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("tcp +step +8 +5 anello +waiting +10.0 +20.0 +30.0 +40.0\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("tcp +step +8 +5 gloo +blocking +50.0 +60.0 +70.0 +80.0\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("tcp +single +8 +5 gloo +blocking "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("openmpi")));
}

TEST_F(Scripts, BusySaysWhatIsMissingOrWrong) {
  EXPECT_THAT(busy("").err, HasSubstr("anello-bench was not found"));
  EXPECT_THAT(busy("-c many").err, HasSubstr("-c 'many' is not a list of numbers such as 0,1,4"));
  EXPECT_THAT(busy("-t udp").err, HasSubstr("-t 'udp' is not a list of tcp and memory"));
  EXPECT_THAT(busy("-p torch").err, HasSubstr("-p 'torch' is not a list of openmpi and gloo"));
  program("anello-bench", "echo 'no world'; exit 1");
  const Outcome failed = busy("-c 0 -t tcp -p gloo");
  EXPECT_THAT(failed.err, HasSubstr("no world"));
  EXPECT_EQ(failed.code, 2);
}

}  // namespace
}  // namespace anello::bench
