// The scripts' own work (arguments, medians, tables), with fake programs that print a given text.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/scripts.hpp"

namespace anello::bench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Scripts, ScalingComparesWithTheFirstWorld) {
  program("anello-train", R"(
    while [[ $1 != --log ]]; do shift; done
    for rate in 1 800 900 1000; do
      echo '{"event":"epoch","communication_share":0.'$RANKS',"epoch":1,"samples_per_second":'$((rate * RANKS))'}'
    done >"$2"
    echo '{"event":"end"}' >>"$2")");
  const Outcome outcome = scaling("-n 1,2");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("     1          900       100 %         10.0 %"));
  EXPECT_THAT(outcome.out, HasSubstr("     2         1800       100 %         20.0 %"));
  EXPECT_THAT(outcome.out, HasSubstr("strong: 64 samples a step shared by all ranks"));
}

TEST_F(Scripts, ScalingSaysWhatIsMissingOrWrong) {
  const Outcome missing = scaling("-n 1");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("anello-train was not found in " + folder_.string()));
  EXPECT_THAT(missing.err, HasSubstr("cmake --preset release"));
  EXPECT_THAT(scaling("-n 1,0").err, HasSubstr("-n '1,0' is not a list of numbers"));
  EXPECT_THAT(scaling("-e 0").err, HasSubstr("-e '0' is not a whole number"));
  program("anello-train", "echo 'no such dataset'; exit 1");
  const Outcome failed = scaling("-n 2");
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.err, HasSubstr("no such dataset"));
  EXPECT_THAT(failed.err, HasSubstr("anello-train failed on 2 ranks"));
}

TEST_F(Scripts, StartupRunsEachInTurn) {
  const std::string order = (folder_ / "order").string();
  for (const std::string name : {"anello-bench-hello", "anello-bench-hello-openmpi", "anello-bench-hello-mpich"})
    program(name, "echo ${0##*-} >>" + order);
  program("mpirun.openmpi", "exec \"${!#}\"");
  program("mpiexec.mpich", "[[ $1 == -n && $2 == 3 ]] && sleep 0.2 && exec \"$3\"");
  program("torchrun", "[[ $* == *' --nproc_per_node=3 '* ]] && echo torchrun >>" + order);
  const Outcome outcome = startup("-n 3 -r 2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("medians of 2 runs"));
  EXPECT_THAT(outcome.out, ContainsRegex("ranks +anello +CPU +openmpi +CPU +ratio +mpich +CPU +ratio"));
  EXPECT_THAT(outcome.out, ContainsRegex(" 3 +[0-9.]+ s +[0-9.]+ s +[0-9.]+ s +[0-9.]+ s +[0-9.]+ +[0-9.]+ s"));
  std::ifstream file(order);
  EXPECT_EQ(std::string((std::istreambuf_iterator<char>(file)), {}),
            "hello\nopenmpi\nmpich\ntorchrun\nhello\nopenmpi\nmpich\ntorchrun\n");
}

TEST_F(Scripts, StartupSaysWhatFailed) {
  program("anello-bench-hello", "echo 'no rendezvous'; exit 1");
  const Outcome failed = startup("-n 2 -r 1");
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.out, HasSubstr("mpich: left out: not here; install it"));
  EXPECT_THAT(failed.err, AllOf(HasSubstr("no rendezvous"), HasSubstr("anello failed with 2 ranks")));
  EXPECT_THAT(startup("-n 2,x").err, HasSubstr("-n '2,x' is not a list of numbers"));
}

TEST_F(Scripts, CompareTakesEachPeersBestAlgorithm) {
  program("anello-bench", rows("10", "20"));
  program("anello-bench-gloo", "[[ $* == *ring_chunked* ]] && time=15 || time=30\n" + rows("$time", "50"));
  const std::string file = (folder_ / "out.json").string();
  const Outcome outcome = compare("-p gloo -r 3 -s 64K,4 -o " + file);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex(" 4 . gloo [a-z_]+ +20\\.0 +50\\.0 +2\\.50 +2\\.50 - 2\\.50 +2\\.50\n"));
  EXPECT_THAT(outcome.out,
              ContainsRegex(" 64K . gloo ring_chunked +10\\.0 +15\\.0 +1\\.50 +1\\.50 - 1\\.50 +1\\.50\n"));
  EXPECT_THAT(outcome.out, HasSubstr("0 of 12 pairs were not steady"));  // in place, each algorithm is near the best
  const auto json = nlohmann::json::parse(std::ifstream(file));
  EXPECT_EQ(json.at("config").at("transport"), "tcp");
  ASSERT_EQ(json.at("results").size(), 4U);
  const auto& last = json.at("results").at(3);
  EXPECT_EQ(last.at("world"), 2);
  EXPECT_EQ(last.at("placement"), "out-of-place");
  EXPECT_EQ(last.at("size"), 65536);
  EXPECT_EQ(last.at("algorithm"), "ring_chunked");
  EXPECT_EQ(last.at("ratio"), 1.5);
  EXPECT_EQ(last.at("best_peer"), true);
}

TEST_F(Scripts, CompareRunsOnlyWhatMayBeAPeersBest) {
  program("anello-bench", rows("10", "10"));
  program("anello-bench-gloo", "echo \"$*\" >>" + (folder_ / "runs").string() +
                                   "\n[[ $* == *bcube* ]] && time=15 || time=30\n" + rows("$time", "$time"));
  EXPECT_EQ(compare("-p gloo -r 2 -s 4,8").code, 0);
  std::ifstream file(folder_ / "runs");
  const std::string runs((std::istreambuf_iterator<char>(file)), {});
  // One trial of each algorithm, then the rounds of one algorithm.
  EXPECT_EQ(std::ranges::count(runs, '\n'), 4 + 2) << runs;
}

TEST_F(Scripts, CompareLeavesOutPairsInWhichTheMachineChanged) {
  const std::string count = (folder_ / "count").string();
  program("anello-bench-sentinel", "echo x >>" + count + "; (($(wc -l <" + count + ") == 3)) && echo 70 || echo 40");
  program("anello-bench", "[[ $(wc -l <" + count + ") -ge 3 ]] && time=10 || time=1000\n" + rows("$time", "$time"));
  program("anello-bench-gloo", rows("20", "20"));
  const Outcome outcome = compare("-p gloo -r 9 -s 4");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 of 36 pairs were not steady"));
  EXPECT_THAT(outcome.out, ContainsRegex(" 10\\.0 +20\\.0 +2\\.00 +2\\.00 - 2\\.00"));
}

TEST_F(Scripts, CompareStartsEachPeerInItsOwnWay) {
  program("anello-bench", "[[ $ANELLO_TRANSPORT == tcp && $RANKS == 1 ]] && " + rows("10", "10"));
  program("anello-bench-openmpi", "exit 1");
  program("anello-bench-mpich", "exit 1");
  program("mpirun.openmpi",
          "[[ $1 != --version ]] || { echo 'Open MPI'; exit; }\n"
          "[[ $* == *'-n 1 '*'btl tcp,self'*'allreduce_algorithm 4'* ]] && time=20 || time=90\n" +
              rows("$time", "$time"));
  program("mpiexec.mpich",
          "[[ $* == '-n 1 '* && $UCX_TLS == tcp,self ]] && time=30 || time=5\n" + rows("$time", "$time"));
  program("python3", "[[ $1 == -c ]] || {\n" + rows("40", "40") + "\n}");
  const Outcome outcome = compare("-p openmpi,mpich,torch -n 1 -r 1 -s 4 -t tcp");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("\\* openmpi ring +10\\.0 +20\\.0 +2\\.00"));
  EXPECT_THAT(outcome.out, ContainsRegex("  mpich [a-z_]+ +10\\.0 +30\\.0 +3\\.00"));
  EXPECT_THAT(outcome.out, ContainsRegex("  torch gloo +10\\.0 +40\\.0 +4\\.00"));
}

TEST_F(Scripts, CompareOfAnyTransportLeavesItOpen) {
  program("anello-bench", "[[ $ANELLO_TRANSPORT == auto ]] && " + rows("10", "10", "", "0"));
  program("anello-bench-openmpi", "exit 1");
  program("mpirun.openmpi",
          "[[ $1 != --version ]] || { echo 'Open MPI'; exit; }\n"
          "[[ $* == *'btl vader,self'* ]] && " +
              rows("5", "5", "", "0"));
  const Outcome outcome = compare("-p openmpi -n 1 -r 1 -s 4 -t any");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("\\* openmpi [a-z_]+ +10\\.0 +5\\.0 +0\\.50"));
}

TEST_F(Scripts, CompareTakesTheMeanWhereRanksShareCores) {
  program("anello-bench", rows("10", "10", "40"));
  program("anello-bench-gloo", rows("15", "15", "80"));
  program("anello-bench-mpich", "exit 1");
  program("mpiexec.mpich", "exit 1");
  const Outcome outcome = compare("-p gloo,mpich -n 9000 -r 1 -s 4");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("9000 ranks, in-place, mean in us"));
  EXPECT_THAT(outcome.out, ContainsRegex(" 40\\.0 +80\\.0 +2\\.00 +2\\.00 - 2\\.00 +1\\.50"));
  EXPECT_THAT(outcome.out, HasSubstr("mpich: left out where ranks outnumber cores"));
}

TEST_F(Scripts, CompareDrawsWithGnuplot) {
  program("anello-bench", rows("10", "10"));
  program("anello-bench-gloo", rows("15", "15"));
  program("gnuplot",
          "cp -- \"$(sed \"s/^data='//;s/'.*//\" <<<\"$2\")\" \"$(sed \"s/.*picture='//;s/'$//\" <<<\"$2\")\"");
  const std::string file = (folder_ / "out.svg").string();
  EXPECT_EQ(compare("-p gloo -n 1,2 -r 1 -s 4 -g " + file).code, 0);
  std::ifstream summary(file);
  std::string first;
  std::getline(summary, first);
  EXPECT_THAT(first, ContainsRegex("^1 in-place 4 gloo [a-z_]+ 10 15 1\\.5 1\\.5 1\\.5 "));
}

TEST_F(Scripts, CompareSaysWhatIsMissingOrWrong) {
  EXPECT_THAT(compare("").err, HasSubstr("anello-bench was not found"));
  program("anello-bench", rows("10", "20"));
  const Outcome alone = compare("-p gloo,openmpi,mpich");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.out, HasSubstr("gloo: not here; install it (Debian: apt-get install libgloo-dev) and build again"));
  EXPECT_THAT(alone.out,
              HasSubstr("openmpi: not here; install it (Debian: apt-get install libopenmpi-dev openmpi-bin)"));
  EXPECT_THAT(alone.out, HasSubstr("mpich: not here; install it (Debian: apt-get install libmpich-dev mpich)"));
  EXPECT_THAT(alone.err, HasSubstr("no peer is here to compare with"));
  EXPECT_THAT(compare("-s 4X").err, HasSubstr("-s '4X' is not a list of sizes"));
  EXPECT_THAT(compare("-s 6").err, HasSubstr("-s '6' is not a number of floats"));
  EXPECT_THAT(compare("-n 2,0").err, HasSubstr("-n '2,0' is not a list of numbers"));
  EXPECT_THAT(compare("-t udp").err, HasSubstr("-t must be tcp or any, not 'udp'"));
  EXPECT_THAT(compare("-p nccl").err,
              HasSubstr("-p 'nccl' is not one of openmpi mpich gloo torch openmpi5 mpich5 impi horovod"));
  EXPECT_THAT(compare("-r 3 more").err, HasSubstr("unknown option 'more'"));
  program("anello-bench-gloo", "echo 'connect: refused' >&2; exit 1");
  const Outcome failed = compare("-p gloo -r 1");
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.err, HasSubstr("connect: refused"));
  EXPECT_THAT(failed.err, HasSubstr("gloo ring failed on 2 ranks"));
  program("anello-bench-gloo", "set -- -s 4 && " + rows("10", "20"));
  EXPECT_THAT(compare("-p gloo -r 1 -s 4,8").err, HasSubstr("gloo ring did not print figures of 4,8 bytes on 2 ranks"));
}

// The script finds only this fake as python, with or without PyTorch.
TEST_F(Scripts, OverlapRunsOursAndPyTorchInTurn) {
  program("anello-bench", "echo \"ours on $RANKS: $*\"");
  program("python3", R"([[ $1 != -c ]] && echo "torch on $RANKS: ${*:2}"; true)");
  const Outcome outcome = overlap("-l loopback -r 2 -s 3 -t 50 -b 0,1024 -i");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string ours = "ours on 2: step --backward 50 -r 3 --buckets 0,1024 --idle\n";
  const std::string round =
      "-- anello, loopback, round 2\n" + ours + "-- PyTorch, loopback, round 2\ntorch on 2: --store ";
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(round), HasSubstr("--backward 50 -r 3 --idle\n")));
}

TEST_F(Scripts, OverlapSaysWhatIsMissingOrWrong) {
  EXPECT_THAT(overlap("").err, HasSubstr("anello-bench was not found"));
  EXPECT_THAT(overlap("-l fast").err, HasSubstr("-l must be loopback or a rate such as 1gbit, not 'fast'"));
  EXPECT_THAT(overlap("-t 0").err, HasSubstr("-t '0' is not a whole number"));
  EXPECT_THAT(overlap("more").err, HasSubstr("unknown option 'more'"));
}

TEST_F(Scripts, NetnsPutsARankOnEachHostBehindALimitedLink) {
  if (run({"bash", "-c", "{ unshare -n true || unshare -rn true; } && ip -V && tc -V"}).code != 0)
    GTEST_SKIP() << "no network namespaces here, or no iproute2";
  program("anello", "[[ $1 == rendezvous ]] && exec sleep 60; touch -- \"$2\"");
  program("anello-bench", R"([[ $(hostname) == h$ANELLO_RANK ]] || exit 1
    ip -4 addr show eth0 | grep -q "10.77.0.$((ANELLO_RANK + 1))/24" || exit 1
    tc qdisc show dev eth0 | grep -q 'tbf.* rate 100Mbit' || exit 1
    ((ANELLO_RANK > 0)) || )" +
                              rows("9000", "7864.32", "10485.76"));
  const Outcome outcome = netns("-p none -l 100mbit -n 2,3 -r 2 -s 64K");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex(" 2 in-place +65536 +5243 +10486 +2\\.000\n"));
  EXPECT_THAT(outcome.out, ContainsRegex(" 3 in-place +65536 +6991 +10486 +1\\.500\n"));
  program("anello-bench", "((ANELLO_RANK == 0)) || { echo 'no route'; exit 1; }");
  const Outcome failed = netns("-p none -n 2 -r 1 -s 64K");
  EXPECT_EQ(failed.code, 2);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("no route"), HasSubstr("anello auto failed on 2 ranks")));
}

TEST_F(Scripts, NetnsPutsARankOrSeveralOnHostsWithSeveralLinks) {
  if (run({"bash", "-c", "{ unshare -n true || unshare -rn true; } && ip -V && tc -V"}).code != 0)
    GTEST_SKIP() << "no network namespaces here, or no iproute2";
  program("anello", "[[ $1 == rendezvous ]] && exec sleep 60; touch -- \"$2\"");
  program("anello-bench",
          R"(host=$((ANELLO_RANK / 2)) && [[ $(hostname) == h$host && $ANELLO_IFACE == eth0+eth1 ]] || exit 1
    [[ $ANELLO_TRANSPORT == auto ]] || exit 1
    for link in '0 100' '1 50'; do
      ip -4 addr show "eth${link% *}" | grep -q "10.77.${link% *}.$((host + 1))/24" || exit 1
      tc qdisc show dev "eth${link% *}" | grep -q "tbf.* rate ${link#* }Mbit" || exit 1
    done
    ((ANELLO_RANK > 0)) || )" +
              rows("9000", "6990.5", "6990.5"));
  const Outcome outcome = netns("-p none -l 100mbit+50mbit -n 2 -k 2 -r 1 -s 64K");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex(" 4 in-place +65536 +3495 +6990 +2\\.000\n"));
  const std::string json = (folder_ / "hosts.json").string();
  const Outcome uneven = netns("-p none -l 100mbit+50mbit -k 2+1 -r 1 -s 64K -o " + json);
  EXPECT_EQ(uneven.code, 0) << uneven.err;
  EXPECT_THAT(content(json), HasSubstr("\"ranks_per_host\":\"2+1\","));
  EXPECT_THAT(uneven.out, ContainsRegex(" 3 in-place +65536 +3495 +6990 +2\\.000\n"));
}

// A broadcast has one tensor only: its figures out of place are N/A.
TEST_F(Scripts, NetnsLeavesOutPlacementsThatACollectiveLacks) {
  if (run({"bash", "-c", "{ unshare -n true || unshare -rn true; } && ip -V && tc -V"}).code != 0)
    GTEST_SKIP() << "no network namespaces here, or no iproute2";
  program("anello", "[[ $1 == rendezvous ]] && exec sleep 60; touch -- \"$2\"");
  program("anello-bench", "((ANELLO_RANK > 0)) || " + rows("N/A", "10485.76"));
  const std::string file = (folder_ / "out.json").string();
  const Outcome outcome = netns("-p none -C broadcast -l 100mbit -n 2 -r 1 -s 64K,128K -o " + file);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex(" 2 in-place +65536 +5243 +10486 +2\\.000\n"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("out-of-place")));
  const auto json = nlohmann::json::parse(content(file));
  EXPECT_EQ(json.at("config").at("collective"), "broadcast");
  ASSERT_EQ(json.at("results").size(), 2U);
  for (const auto& result : json.at("results")) EXPECT_EQ(result.at("placement"), "in-place");
}

TEST_F(Scripts, NetnsSaysWhatIsMissingOrWrong) {
  EXPECT_THAT(netns("").err, HasSubstr("anello-bench was not found"));
  EXPECT_THAT(netns("-n 1").err, HasSubstr("-n '1' is not a list of numbers from 2 to 99"));
  EXPECT_THAT(netns("-l fast").err, HasSubstr("-l 'fast' is not a rate such as 100mbit or 10gbit"));
  EXPECT_THAT(netns("-f 1kbit").err, HasSubstr("-f '1kbit' is not a rate"));
  EXPECT_THAT(netns("-l 1gbit+fast").err, HasSubstr("-l 'fast' is not a rate"));
  EXPECT_THAT(netns("-l 1gbit+").err, HasSubstr("-l '1gbit+' is not a list of 1 to 8 rates"));
  EXPECT_THAT(netns("-k 0").err, HasSubstr("-k '0' is not a number from 1 to 99, or a list of them"));
  EXPECT_THAT(netns("-k 2+").err, HasSubstr("-k '2+' is not a number from 1 to 99, or a list of them"));
  EXPECT_THAT(netns("-k 2+1 -n 3").err, HasSubstr("-k 2+1 is a list of 2 hosts, -n says 3"));
  EXPECT_THAT(netns("-f 1gbit -n 4").err, HasSubstr("-f needs -n 2"));
  EXPECT_THAT(netns("-f 1gbit -n 2 -k 2").err, HasSubstr("one rank and one link on each host"));
  EXPECT_THAT(netns("-C gather").err, HasSubstr("-C 'gather' is not allreduce, allgather, reduce_scatter, broadcast"));
  EXPECT_THAT(netns("-C broadcast").err, HasSubstr("-C broadcast needs -p none"));
  EXPECT_THAT(netns("-p nccl").err, HasSubstr("-p 'nccl' is not one of"));
  EXPECT_THAT(netns("-c 'reno;'").err, HasSubstr("must be the name of a congestion control"));
}

// A fake gnuplot writes its input in place of a picture.
TEST_F(Scripts, PicturesAreDrawnFromRecordedResults) {
  program(
      "gnuplot",
      "eval \"${2//; /;}\"; { echo \"$machine $rate\"; cat -- \"$data\"; echo '<g a>'; echo '</g>'; } >\"$picture\"");
  std::ofstream(folder_ / "hosts.json")
      << R"({"config":{"machine":"2 cores, Some CPU","rate_mbit":1000,"ranks_per_host":2},"results":[
{"world":4,"placement":"in-place","size":65536,"peer":"mpich","anello_us":1048.576,"peer_us":2097.152},
{"world":4,"placement":"in-place","size":65536,"peer":"openmpi","anello_us":1048.576,"peer_us":4194.304},
{"world":4,"placement":"out-of-place","size":65536,"peer":"mpich","anello_us":3,"peer_us":4}
]})";
  const auto folder = folder_ / "pictures";
  const Outcome outcome = pictures("-d " + folder.string() + " " + (folder_ / "hosts.json").string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, (folder / "hosts.svg").string() + "\n" + (folder / "hosts-efficiency.svg").string() + "\n");
  EXPECT_EQ(content(folder / "hosts.svg"),
            "2 cores, Some CPU \n4 65536 anello 1048.576\n4 65536 mpich 2097.152\n4 65536 openmpi 4194.304\n");
  EXPECT_EQ(content(folder / "hosts-efficiency.svg"),
            "2 cores, Some CPU 1000\n4 anello 0.5 65536\n4 mpich 0.25 65536\n4 openmpi 0.125 65536\n");
}

TEST_F(Scripts, PicturesAreOfTheCollectiveThatWasMeasured) {
  program("gnuplot", "eval \"${2//; /;}\"; { echo \"$collective\"; cat -- \"$data\"; } >\"$picture\"");
  const auto drawn = [&](const std::string& config) {
    std::ofstream(folder_ / "out.json") << R"({"config":{"machine":"m","rate_mbit":1000,)" << config << R"(},"results":[
{"world":6,"placement":"in-place","size":6000,"peer":"anello","anello_us":96,"peer_us":96}
]})";
    const Outcome outcome = pictures("-d " + folder_.string() + " " + (folder_ / "out.json").string());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return content(folder_ / "out.svg") + content(folder_ / "out-efficiency.svg");
  };
  // 48 us for all 6,000 bytes.
  EXPECT_EQ(drawn(R"("ranks_per_host":"2")"), "an allreduce\n6 6000 anello 96\nan allreduce\n6 anello 0.666667 6000\n");
  EXPECT_EQ(drawn(R"("ranks_per_host":"2","collective":"broadcast")"),
            "a broadcast\n6 6000 anello 96\na broadcast\n6 anello 0.5 6000\n");
  EXPECT_EQ(drawn(R"("ranks_per_host":"2","collective":"reduce")"),
            "a reduce\n6 6000 anello 96\na reduce\n6 anello 0.5 6000\n");
  EXPECT_EQ(drawn(R"("ranks_per_host":"3+2+1","collective":"reduce_scatter")"),
            "a reduce-scatter\n6 6000 anello 96\na reduce-scatter\n6 anello 0.416667 6000\n");
  EXPECT_EQ(drawn(R"("ranks_per_host":"3","collective":"allgather")"),
            "an allgather\n6 6000 anello 96\nan allgather\n6 anello 0.25 6000\n");
}

TEST_F(Scripts, PicturesSayWhatIsMissing) {
  EXPECT_THAT(pictures("/nowhere.json").err, HasSubstr("'/nowhere.json' cannot be read"));
  std::ofstream(folder_ / "empty.json") << "{}";
  program("gnuplot", "exit 1");
  EXPECT_THAT(pictures("-d " + folder_.string() + " " + folder_.string() + "/empty.json").err,
              HasSubstr("has no results in place"));
}

}  // namespace
}  // namespace anello::bench
