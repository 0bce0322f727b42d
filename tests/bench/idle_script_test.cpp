// bench/idle.sh: its arguments, its table, and programs that fail.
#include <gmock/gmock.h>

#include "tests/bench/scripts.hpp"

namespace anello::bench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// In each round, the fake programs print a different first figure.
TEST_F(Scripts, IdlePutsLibrariesBesideEachOtherWithMedians) {
  const std::string count = "echo >>\"$0.calls\"; round=$(wc -l <\"$0.calls\"); ";
  program("anello-bench", "[[ $* == 'idle --calls '*' --idle_ms 10 --late_ms 5 --operations 7' ]] && " + count +
                              "echo \"  $round 2 3 4 5 6 7 8 9 10 11\"");
  program("anello-bench-gloo",
          "[[ ${*: -9:1} == idle ]] && " + count + "echo \"  $((round * round)) 2 3 4 5 6 7 8 9 10 99\"");
  const Outcome outcome = idle("-n 3 -t tcp,memory -r 3 -m 10 -k 7 -p gloo");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex(" 3 tcp +anello +auto +blocking +3.00 +2.00 +3.0 +4.0 +5.0 +6 +7 +8.00 "));
  EXPECT_THAT(outcome.out, ContainsRegex(" 3 tcp +anello +auto +waiting +4.00 "));
  EXPECT_THAT(outcome.out, ContainsRegex(" 3 tcp +gloo +ring +blocking +4.00 .* +10.00 +99.00\n"));
  EXPECT_THAT(outcome.out, ContainsRegex(" 3 memory +anello +auto +blocking +9.00 "));
  EXPECT_THAT(outcome.out, Not(ContainsRegex("memory +gloo")));
}

TEST_F(Scripts, IdleMeasuresTheBackendsOfTorch) {
  program("anello-bench", "echo '  1 2 3 4 5 6 7 8 9 10 11'");
  program("python3", R"([[ $1 == -c ]] && exit
    words=$*; backend=${words#*--backend }; [[ $words == *torch_peer.py* ]] || exit 1
    case ${backend%% *} in gloo) first=5 ;; anello) first=6 ;; esac
    echo "  $first 2 3 4 5 6 7 8 9 10 11")");
  const Outcome outcome = idle("-n 2 -t tcp -r 1 -p torch");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("torch +gloo +blocking +5.00 "));
  EXPECT_THAT(outcome.out, ContainsRegex("torch +anello +blocking +6.00 "));
}

TEST_F(Scripts, IdleSaysWhatIsMissingOrWrong) {
  EXPECT_THAT(idle("").err, HasSubstr("anello-bench was not found"));
  EXPECT_THAT(idle("-n few").err, HasSubstr("-n 'few' is not a list of numbers such as 2,8"));
  EXPECT_THAT(idle("-t udp").err, HasSubstr("-t 'udp' is not a list of tcp and memory"));
  EXPECT_THAT(idle("-p nccl").err, HasSubstr("-p 'nccl' is not one of"));
  EXPECT_THAT(idle("-m 0").err, HasSubstr("-m '0' is not a whole number"));
  EXPECT_THAT(idle("more").err, HasSubstr("unknown option 'more'"));
  program("anello-bench", "echo 'no world'; exit 1");
  const Outcome failed = idle("-n 2 -t tcp -r 1 -p gloo");
  EXPECT_THAT(failed.err, AllOf(HasSubstr("no world"), HasSubstr("anello failed (see above)")));
  EXPECT_EQ(failed.code, 2);
  program("anello-bench", "echo '1 2'");
  EXPECT_THAT(idle("-n 2 -t tcp -r 1 -p gloo").err, HasSubstr("anello did not print figures"));
}

}  // namespace
}  // namespace anello::bench
