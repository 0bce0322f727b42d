// Programs that meet at MASTER_ADDR and MASTER_PORT, as programs for torchrun do, on hosts that `anello run` reaches by
// each of its methods.
#include <gmock/gmock.h>

#include "ring/base/text.hpp"
#include "tests/cluster/hosts.hpp"
#include "tests/support/pattern.hpp"

namespace anello::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// `launch` is a command in which % is replaced by the program and its arguments.
testing::Outcome launched(int host, const std::string& launch, const std::string& program) {
  const std::size_t at = launch.find('%');
  return on(host, launch.substr(0, at) + program + launch.substr(at + 1));
}

const std::string kShow = "sh -c 'echo at $MASTER_ADDR port $MASTER_PORT.'";
const std::string kPythonPath = "PYTHONPATH=" ANELLO_PYTHON " ";

// Expects the same address and port on all ranks. Returns the port.
int expect_place(const testing::Outcome& outcome, const std::string& address, std::size_t ranks) {
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const std::vector<std::string> lines = testing::lines(outcome.out);
  EXPECT_EQ(lines.size(), ranks) << outcome.out << outcome.err;
  int port = 0;
  for (const std::string& line : lines) {
    const auto found = pattern::find(line, "at (.*) port ([0-9]+)\\.");
    if (!found) return ADD_FAILURE() << line, 0;
    EXPECT_EQ((*found)[1], address) << outcome.out;
    EXPECT_TRUE(port == 0 || port == std::stoi((*found)[2])) << outcome.out;
    port = std::stoi((*found)[2]);
  }
  return port;
}

// The test runs the launcher on each host in turn, so rank 0 is sometimes on the launcher's host and sometimes not.
TEST(Master, IsAnAddressOfRank0sHostThatOthersReach) {
  on(0, "printf '%s\\n' 'h1 slots=2' 'root@h0 slots=1' >hostfile");
  for (const int host : {0, 1, 2}) {
    expect_place(launched(host, "anello run -H h0:2,h1:1 -- %", kShow), "10.77.0.1", 3);
    expect_place(launched(host, "anello run --hostfile hostfile -- %", kShow), "10.77.0.2", 3);
    expect_place(launched(host, "anello run -H root@10.77.0.3:1,h0:1 -- %", kShow), "10.77.0.3", 2);
    expect_place(launched(host, "salloc -Q -N 3 -n 3 anello run -- %", kShow), "10.77.0.1", 3);
  }
}
TEST(Master, HasAnIPv6AddressWhereHostsMeetByOne) {
  for (const int host : {0, 1})
    expect_place(launched(host, "ANELLO_SSH='ssh -6' anello run -H [fd00:77::1]:1,[fd00:77::2]:1 -- %", kShow),
                 "fd00:77::1", 2);
}
TEST(Master, IsWhereTheInterfaceIs) {
  on(1,
     "ip link add other0 type veth peer name other1 && ip link set other1 up && ip addr add 10.88.0.2/24 dev other0 && "
     "ip link set other0 up");
  expect_place(launched(0, "ANELLO_IFACE=other anello run -H h1:1 -- %", kShow), "10.88.0.2", 1);
  const testing::Outcome outcome = launched(0, "ANELLO_IFACE=absent anello run -H h1:1,h2:1 -- %", kShow);
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("host h1 cannot run its ranks: ANELLO_IFACE='absent' admits none"));
  on(1, "ip link del other0");
}
// The scheduler chooses rank 0's host.
TEST(Master, UnderGridEngine) {
  start_grid_engine();
  on(0,
     "printf '%s\\n' 'exec anello run -- sh -c \"echo on \\$(hostname) at \\$MASTER_ADDR port \\$MASTER_PORT.\"' "
     ">job.sge");
  const testing::Outcome outcome = on(0,
                                      ". ./.gridengine; qsub -sync y -cwd -V -pe mpi 6 -o out.master -e err.master "
                                      "job.sge >/dev/null; cat out.master; cat err.master >&2");
  const auto first = pattern::find(outcome.out, "\\[0\\] on h([0-2])");
  ASSERT_TRUE(first) << outcome.out << outcome.err;
  expect_place(outcome, text("10.77.0.", std::stoi((*first)[1]) + 1), 6);
}
TEST(Master, UnderLsf) {
  on(0, "mkdir -p bin && printf '#!/bin/sh\\nexec ssh \"$@\"\\n' >bin/blaunch && chmod +x bin/blaunch");
  for (const int host : {0, 1})
    expect_place(launched(host, "PATH=$PWD/bin:$PATH LSB_JOBID=7 LSB_MCPU_HOSTS='h0 2 h1 2' anello run -- %", kShow),
                 "10.77.0.1", 4);
}

TEST(Master, HasAPortThatIsFree) {
  const std::string range = "ANELLO_PORT_RANGE=30100-30107 ";
  for (const std::string launch : {"anello run -H h1:2,h2:1 -- %", "salloc -Q -w h1,h2 -N 2 -n 3 anello run -- %"}) {
    const Descriptor last = occupy(1, 30107, true), before = occupy(1, 30105, true), here = occupy(0, 30106, true);
    const int port = expect_place(launched(0, range + launch, kShow), "10.77.0.2", 3);
    EXPECT_TRUE(port == 30102 || port == 30103 || port == 30104 || port == 30106)
        << port << ": ranks of h1 listen at 30100 and 30101";
  }
}

TEST(Master, TorchMeetsThere) {
  const std::string script = "/usr/bin/python3 " + in_tree("tests/cluster/torch_master.py") + " ";
  on(0, "printf '%s\\n' h0:1 h1:1 >hostfile");
  const Descriptor taken = occupy(0, 30103, true);
  for (const std::string launch : {"anello run -H h0:1,h1:1 -- %", "anello run --hostfile hostfile -- %",
                                   "salloc -Q -w h0,h1 -N 2 -n 2 anello run -- %"})
    for (const std::string backend : {"gloo", "anello"})
      for (const std::string range : {"", "ANELLO_PORT_RANGE=30100-30107 "}) {
        const testing::Outcome outcome = launched(0, kPythonPath + range + launch, script + backend);
        EXPECT_EQ(outcome.code, 0) << launch << backend << range << outcome.out << outcome.err;
        EXPECT_THAT(outcome.out, ContainsRegex(text("sum 3 of 2 at 10\\.77\\.0\\.1 ", range.empty() ? "2" : "3010")));
      }
}
TEST(Master, TorchMeetsOnThreeHosts) {
  const std::string script = "/usr/bin/python3 " + in_tree("tests/cluster/torch_master.py") + " ";
  for (const std::string backend : {"gloo", "anello"}) {
    const testing::Outcome outcome = launched(2, kPythonPath + "anello run -H h1:1,h2:1,h0:1 -- %", script + backend);
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("sum 6 of 3 at 10.77.0.2 "));
  }
}

}  // namespace
}  // namespace anello::cluster
