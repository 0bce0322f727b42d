// bench/peers.sh and the peers that it installs, and the check that each peer uses the intended transport.
#include <gmock/gmock.h>

#include "tests/bench/scripts.hpp"

namespace anello::bench {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// `sent`: the numbers of bytes that a call out of place and a call in place sent.
std::string sending(const std::string& sent, const std::string& rows) {
  return "[[ $* != *--loopback* ]] || echo '# loopback: " + sent + " bytes a call'; set -- ${*/--loopback/}; " + rows;
}

class Peers : public Scripts {
 protected:
  // Puts a launcher of an MPI where peers.sh installs it.
  void launcher(const std::string& peer, const std::string& name, const std::string& script) {
    std::filesystem::create_directories(folder_ / "peers" / peer / "bin");
    program("anello-bench-" + peer, "exit 1");
    program("peers/" + peer + "/bin/mpiexec", script);
    program("peers/" + peer + "/bin/" + name, script);
  }
};

TEST_F(Peers, ThatDoNotUseTcpAreLeftOutByName) {
  program("anello-bench", rows("10", "10"));
  // 4 bytes are sent, 64 KiB are not.
  program("anello-bench-gloo", sending("10 200", rows("5", "5")));
  program("python3", "[[ $1 == -c ]] || {\n" + rows("40", "40") + "\n}");
  const Outcome outcome = compare("-p gloo,torch -r 1 -s 4,64K");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("gloo ring: left out at 65536 bytes on 2 ranks: a call sent 200 bytes over loopback, "
                        "and TCP would send at least 98364\n"));
  EXPECT_THAT(outcome.err, HasSubstr("gloo ring: left out at 4 bytes on 2 ranks: a call sent 10 bytes"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("torch gloo"), Not(HasSubstr("gloo ring"))));
  const Outcome alone = compare("-p gloo -r 1 -s 4,64K");
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("no peer uses the transport tcp on 2 ranks"));
}

TEST_F(Peers, ThatUseTcpForMemoryAreLeftOutByName) {
  program("anello-bench", rows("10", "10", "", "0"));
  launcher("openmpi5", "mpirun", rows("5", "5", "", "140"));
  launcher("impi", "mpiexec.hydra", rows("6", "6", "", "0"));
  program("anello-bench-gloo", rows("20", "20"));  // has only TCP
  const Outcome outcome = compare("-p openmpi5,impi,gloo -r 1 -s 4 -t any");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ContainsRegex("openmpi5 ring: left out at 4 bytes on 2 ranks: a call sent 140 bytes over "
                                         "loopback, and memory would send none"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("* impi"), HasSubstr("  gloo"), Not(HasSubstr("openmpi5 r"))));
}

TEST_F(Peers, ThatDoNotCountAreLeftOut) {
  program("anello-bench", rows("10", "10", "", "0"));
  launcher("openmpi5", "mpirun", "set -- ${*/--loopback/}; " + rows("5", "5"));
  EXPECT_THAT(compare("-p openmpi5 -r 1 -s 4 -t any").err,
              HasSubstr("a call sent an unknown number of bytes over loopback"));
}

TEST_F(Peers, AreNotComparedIfOursUsesAnotherTransport) {
  program("anello-bench", rows("10", "10", "", "0"));
  program("anello-bench-gloo", rows("20", "20"));
  const Outcome outcome = compare("-p gloo -r 1 -s 4");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("anello does not use the transport tcp"));
}

TEST_F(Peers, OfTodayAreTunedForTcp) {
  program("anello-bench", "[[ $ANELLO_TRANSPORT == tcp ]] && " + rows("10", "10"));
  launcher("openmpi5", "mpirun", "[[ $* == *'btl tcp,self'*'if_include lo'* ]] && " + rows("20", "20"));
  launcher("mpich5", "mpiexec",
           "[[ $MPIR_CVAR_NOLOCAL == 1 && $MPIR_CVAR_CH4_NETMOD == ofi && $FI_PROVIDER == tcp && "
           "$MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE == 0 ]] && " +
               rows("30", "30"));
  launcher("impi", "mpiexec.hydra",
           "[[ $I_MPI_FABRICS == ofi && $I_MPI_COLL_INTRANODE == pt2pt && $FI_PROVIDER == tcp && $I_MPI_OFI_LIBRARY == "
           "*/openmpi5/* ]] && [[ $I_MPI_ADJUST_ALLREDUCE == 13 ]] && time=25 || time=90\n" +
               rows("$time", "$time"));
  const Outcome outcome = compare("-p openmpi5,mpich5,impi -n 1 -r 1 -s 4");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("\\* openmpi5 [a-z_]+ +10\\.0 +20\\.0 +2\\.00"));
  EXPECT_THAT(outcome.out, ContainsRegex("  mpich5 [a-z_]+ +10\\.0 +30\\.0 +3\\.00"));
  EXPECT_THAT(outcome.out, ContainsRegex("  impi number_13 +10\\.0 +25\\.0 +2\\.50"));
}

TEST_F(Peers, OfTodayAreTunedForMemory) {
  program("anello-bench", rows("10", "10", "", "0"));
  launcher("openmpi5", "mpirun", "[[ $* == *'btl sm,self'* ]] && " + rows("20", "20", "", "0"));
  launcher("mpich5", "mpiexec",
           "[[ -z $MPIR_CVAR_NOLOCAL && $MPIR_CVAR_CH4_CMA_ENABLE == 1 ]] && " + rows("30", "30", "", "0"));
  launcher("impi", "mpiexec.hydra", "[[ $I_MPI_FABRICS == shm ]] && " + rows("25", "25", "", "0"));
  const Outcome outcome = compare("-p openmpi5,mpich5,impi -n 1 -r 1 -s 4 -t any");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("openmpi5 "), HasSubstr("mpich5 "), HasSubstr("impi ")));
}

TEST_F(Peers, OfTodaySayHowToGetThem) {
  program("anello-bench", rows("10", "10"));
  std::filesystem::create_directories(folder_ / "peers");
  const Outcome outcome = compare("-p mpich5,impi");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("mpich5: not here; install it: bash bench/peers.sh"),
                                 HasSubstr("impi: not here; install it: bash bench/peers.sh")));
}

// The table has the versions that the programs print. A fake gnuplot writes its input in place of a picture.
TEST_F(Peers, AreMeasuredInEachKindWithATableAndAPicture) {
  const std::string sent =
      "[[ $ANELLO_TRANSPORT == tcp || $* == *tcp,self* || -n $MPIR_CVAR_NOLOCAL ]] && sent='9999 9999' "
      "|| sent='0 0'; [[ $* != *--loopback* ]] || echo \"# loopback: $sent bytes a call\"; "
      "echo '# {\"library\":\"x\",\"version\":\"7.8\",\"world\":2}'; set -- ${*/--loopback/}; ";
  program("anello-bench", sent + "[[ $* == *--allocate* ]] && time=2 || time=10; " + rows("$time", "$time"));
  launcher("openmpi5", "mpirun", sent + rows("20", "20"));
  launcher("mpich5", "mpiexec", sent + "[[ $* == *'-s 4 '* ]] && time=15 || time=40; " + rows("$time", "$time"));
  program("python3", "[[ $1 == -c ]] || {\n" + rows("40", "40") + "\n}");
  program("gnuplot", "eval \"${2//; /;}\"; cat -- \"$data\" >\"$picture\"");
  const auto out = folder_ / "out";
  const Outcome outcome = peers("-p openmpi5,mpich5,torch -n 1 -r 1 -s 4,8 -m 5 -o " + out.string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("versions: anello: 7.8; mpich5: 7.8; openmpi5: 7.8"));
  EXPECT_THAT(outcome.out, HasSubstr((out / "tcp.json").string() + "\n| | 1 ranks: us | ratio |\n|---|---:|---|\n"
                                                                   "| 4 B | 10 | 2.00 (2.00-2.00) openmpi5 |\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr((out / "allocate.json").string() + "\n| | 1 ranks: us | ratio |\n|---|---:|---|\n"
                                                           "| 4 B | 2.0 | 10.00 (10.00-10.00) openmpi5 |\n"));
  EXPECT_THAT(content(out / "tcp.svg"), AllOf(HasSubstr("1 4 torch 40"), HasSubstr("1 4 openmpi5 20")));
  EXPECT_THAT(content(out / "memory.svg"), AllOf(HasSubstr("1 4 anello 10"), Not(HasSubstr("torch"))));
  EXPECT_THAT(content(out / "memory.json"), HasSubstr("\"versions\":\"anello: 7.8; mpich5: 7.8; openmpi5: 7.8\""));
}

TEST_F(Peers, SayWhatIsMissingOrWrong) {
  EXPECT_THAT(peers("-k udp").err, HasSubstr("-k 'udp' is not a list of tcp, memory and allocate"));
  EXPECT_THAT(peers("-p openmpi").err,
              HasSubstr("-p 'openmpi' is not a list of openmpi5, mpich5, impi, torch and horovod"));
  EXPECT_THAT(peers("more").err, HasSubstr("unknown option 'more'"));
  EXPECT_THAT(peers("-p impi -o " + (folder_ / "out").string()).err, HasSubstr("anello-bench was not found"));
}

}  // namespace
}  // namespace anello::bench
