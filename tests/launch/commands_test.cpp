// The other subcommands.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <anello/version.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/launch/launched.hpp"
#include "tests/support/free_ports.hpp"
#include "tests/support/scratch.hpp"

namespace anello::launch {
namespace {

bool somebody_listens(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(std::uint16_t(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

// Every rank needs a descriptor, and the usual limit is 1024.
TEST(RendezvousCommand, MayOpenAsManyFilesAsTheSystemAllows) {
  Process server({"/bin/sh", "-c", std::string("ulimit -S -n 64; exec ") + ANELLO_PROGRAM + " rendezvous"});
  ASSERT_TRUE(server.says("ANELLO_RENDEZVOUS="));
  std::ifstream limits("/proc/" + std::to_string(server.pid()) + "/limits");
  std::string word, soft, hard;
  for (std::string line; std::getline(limits, line);)
    if (std::istringstream words(line); line.starts_with("Max open files"))
      words >> word >> word >> word >> soft >> hard;
  EXPECT_EQ(soft, hard);
  EXPECT_NE(soft, "64");
}

TEST(Secret, IsPrivateRandomAndNeverOverwritten) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string one = folder / ("anello-secret." + std::to_string(getpid())), other = one + ".other";
  ASSERT_EQ(testing::run(anello({"secret", one})).code, 0);
  ASSERT_EQ(testing::run(anello({"secret", other})).code, 0);
  struct stat file {};
  ASSERT_EQ(stat(one.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  std::string first, second;
  std::getline(std::ifstream(one), first);
  std::getline(std::ifstream(other), second);
  EXPECT_EQ(first.size(), 64u);
  EXPECT_NE(first, second);
  const Outcome again = testing::run(anello({"secret", one}));
  EXPECT_EQ(again.code, 1);
  EXPECT_TRUE(contains(again.err, one) && testing::lines(again.err).size() == 1) << again.err;
  std::string kept;
  std::getline(std::ifstream(one), kept);
  EXPECT_EQ(kept, first);
  std::filesystem::remove(one);
  std::filesystem::remove(other);
}

TEST(Secret, OfAHomeIsMadeOnceAndFound) {
  const Scratch scratch;
  const std::string file = scratch.path() / "new" / "anello" / "secret";
  const testing::Surroundings home{.environment = {"XDG_CONFIG_HOME=" + (scratch.path() / "new").string()}};
  const Outcome made = testing::run(anello({"secret"}), home);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, file + "\n");
  const std::string secret = bytes_of(file);
  EXPECT_EQ(secret.size(), 65u);
  EXPECT_EQ(testing::run(anello({"secret"}), home).out, file + "\n");
  EXPECT_EQ(bytes_of(file), secret);
  Process server(anello({"rendezvous", "--listen", "0.0.0.0"}), home);
  EXPECT_TRUE(server.says("ANELLO_RENDEZVOUS=")) << server.err();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  std::filesystem::permissions(file, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  const Outcome refused = testing::run(anello({"rendezvous", "--listen", "0.0.0.0"}), home);
  EXPECT_EQ(refused.code, 1);
  EXPECT_TRUE(contains(refused.err, file) && contains(refused.err, "chmod 600")) << refused.err;
}

TEST(Doctor, SaysWhatStartedIt) {
  const std::vector<std::string> step = {
      "SLURM_JOB_ID=7",  "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=6",    "SLURM_PROCID=3",
      "SLURM_LOCALID=1", "SLURM_NODEID=1",  "SLURM_STEP_NODELIST=h[0-2]"};
  const Outcome doctor = testing::run(anello({"doctor"}), {.environment = step});
  EXPECT_TRUE(contains(doctor.out, "task 3 of 6 of Slurm step 7.0 (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=6)") &&
              contains(doctor.out, "rank 3 of 6, which meets the others on h0"))
      << doctor.out;
  const Outcome copies = testing::run(anello({"run", "-n", "2", "--", "true"}), {.environment = step});
  EXPECT_EQ(copies.code, 2);
  EXPECT_TRUE(contains(copies.err, "task 3 of 6 of Slurm step 7.0") && contains(copies.err, "ANELLO_SIZE=1"))
      << copies.err;
}

TEST(Output, ThatIsLostIsAnError) {
  for (const std::string command :
       {"--version", "settings", "run --help", "run --dry-run -n 2 -- true", "manual run"}) {
    const Outcome full = testing::run({"sh", "-c", ANELLO_PROGRAM " " + command + " > /dev/full"});
    EXPECT_EQ(full.code, 1) << command;
    EXPECT_TRUE(contains(full.err, "standard output cannot be written")) << command << ": " << full.err;
  }
}

class Rendezvous : public ::testing::TestWithParam<int> {};

TEST_P(Rendezvous, SaysWhereItListensAndEndsWhenAsked) {
  Process server(anello({"rendezvous", "--port", "0"}));
  ASSERT_TRUE(server.says("\n"));
  const std::string said = server.out(), expected = "ANELLO_RENDEZVOUS=127.0.0.1:";
  ASSERT_TRUE(said.starts_with(expected)) << said;
  EXPECT_TRUE(somebody_listens(std::stoi(said.substr(expected.size()))));
  server.signal(GetParam());
  EXPECT_EQ(server.wait(), 0);
}
INSTANTIATE_TEST_SUITE_P(, Rendezvous, ::testing::Values(SIGINT, SIGTERM, SIGQUIT, SIGABRT, SIGALRM),
                         [](const auto& one) { return std::string(sigabbrev_np(one.param)); });

TEST(RendezvousAlone, APortInUseIsNamed) {
  Process server(anello({"rendezvous", "--port", "0"}));
  ASSERT_TRUE(server.says("\n"));
  const std::string port =
      server.out().substr(server.out().rfind(':') + 1, server.out().find('\n') - server.out().rfind(':') - 1);
  const Outcome second = testing::run(anello({"rendezvous", "--port", port}));
  EXPECT_EQ(second.code, 1);
  EXPECT_TRUE(contains(second.err, port) && testing::lines(second.err).size() == 1) << second.err;
}

TEST(RendezvousAlone, PrintsAnAddressThatRanksCanUse) {
  Process local(anello({"rendezvous", "--listen", "localhost"}));
  ASSERT_TRUE(local.says("\n"));
  EXPECT_TRUE(contains(local.out(), "=127.0.0.1:") || contains(local.out(), "=[::1]:")) << local.out();
  local.signal(SIGTERM);
  EXPECT_EQ(local.wait(), 0);
  const Scratch scratch;
  const std::string secret = scratch / "secret";
  if (testing::run(anello({"secret", secret})).code != 0) GTEST_SKIP() << "this build has no authentication";
  Process everywhere(anello({"rendezvous", "--listen", "0.0.0.0", "--secret-file", secret}));
  ASSERT_TRUE(everywhere.says("\n")) << everywhere.err();
  EXPECT_FALSE(contains(everywhere.out(), "0.0.0.0")) << everywhere.out();
  everywhere.signal(SIGTERM);
  EXPECT_EQ(everywhere.wait(), 0);
}

TEST(RendezvousAlone, MayEndWhenOneWorldHasFormed) {
  Process server(anello({"rendezvous", "--once"}));
  ASSERT_TRUE(server.says("\n"));
  const std::string setting = testing::lines(server.out()).at(0);
  EXPECT_EQ(testing::run({WAITER, "early"}, {.environment = {setting, "ANELLO_SIZE=1"}}).code, 3);
  EXPECT_EQ(server.wait(), 0) << server.err();
}

TEST(RendezvousAlone, MayEndWhenAStartHasFailed) {
  Process server(anello({"rendezvous", "--once"}));
  ASSERT_TRUE(server.says("\n"));
  const std::string setting = testing::lines(server.out()).at(0);
  const Outcome rank =
      testing::run({WAITER, "early"}, {.environment = {setting, "ANELLO_SIZE=2", "ANELLO_START_TIMEOUT=300"}});
  EXPECT_TRUE(contains(rank.err, "only 1 of 2 ranks joined")) << rank.err;
  EXPECT_EQ(server.wait(), 1);
  EXPECT_TRUE(contains(server.err(), "only 1 of 2 ranks joined")) << server.err();
}

TEST(Settings, AreListed) {
  const Outcome plain = testing::run(anello({"settings"})), markdown = testing::run(anello({"settings", "--markdown"}));
  EXPECT_TRUE(contains(plain.out, "  ANELLO_IFACE ")) << plain.out;
  EXPECT_TRUE(contains(markdown.out, "| `ANELLO_IFACE` |")) << markdown.out;
  EXPECT_TRUE(contains(testing::run(anello({"run", "--help"})).out, plain.out));
}

TEST(Version, IsSaid) {
  EXPECT_EQ(testing::run(anello({"--version"})).out, "anello " + std::string(version()) + "\n");
}

TEST(Doctor, ShowsTheHostAndTheEnvironmentWithoutSecrets) {
  const Outcome outcome =
      testing::run(anello({"doctor"}), {.environment = {"ANELLO_SECRET=opensesame", "ANELLO_START_TIMEOUT=5000"}});
  EXPECT_EQ(outcome.code, 1) << "an unknown variable is a problem";
  for (const char* part :
       {version().data(), "launcher", "cores", "interface lo", "127.0.0.1", "TCP congestion", "open files",
        "locked memory", "ANELLO_START_TIMEOUT", "5000", "ANELLO_SECRET is not a setting"})
    EXPECT_TRUE(contains(outcome.out, part)) << part << " is not in\n" << outcome.out;
  EXPECT_FALSE(contains(outcome.out, "opensesame"));
}

TEST(Doctor, FindsProblemsInSettings) {
  for (const char* setting :
       {"ANELLO_START_TIMEOUT=soon", "ANELLO_IFACE=none0", "ANELLO_SECRET_FILE=/nowhere", "ANELLO_PORT_RANGE=9-1",
        "ANELLO_TRANSPORT=tpc", "ANELLO_ALGORITHM=rong", "ANELLO_LOG=verbose", "ANELLO_TABLE=/nope",
        "ANELLO_METRICS=9400", "ANELLO_SHM_BYTES=100", "ANELLO_SIZE=4", "ANELLO_FLIGHT_SIGNAL=USR3",
        "ANELLO_RENDEZVOUS=nowhere", "ANELLO_SIZ=2"}) {
    const std::string name(setting, std::strchr(setting, '='));
    const Outcome outcome = testing::run(anello({"doctor"}), {.environment = {setting}});
    EXPECT_EQ(outcome.code, 1) << setting;
    EXPECT_TRUE(contains(outcome.out.substr(outcome.out.find("problems:")), name)) << outcome.out;
  }
}

TEST(Doctor, FindsAllProblemsAtOnce) {
  const Outcome outcome = testing::run(
      anello({"doctor"}), {.environment = {"ANELLO_TRANSPORT=tpc", "ANELLO_LOG=verbose", "ANELLO_STALL_TIME=soon"}});
  for (const char* part : {"ANELLO_TRANSPORT must be auto", "ANELLO_LOG must be error", "ANELLO_STALL_TIME='soon'"})
    EXPECT_TRUE(contains(outcome.out, part)) << outcome.out;
}

TEST(Doctor, TriesTheRendezvous) {
  const std::string port = std::to_string(consecutive_free_ports(1));
  Process server(anello({"rendezvous", "--port", port}));
  ASSERT_TRUE(server.says("\n"));
  const std::string setting = testing::lines(server.out()).at(0), address = setting.substr(setting.find('=') + 1);
  const Outcome well = testing::run(anello({"doctor"}), {.environment = {setting}});
  EXPECT_TRUE(contains(well.out, address + " answers, for job 'default'")) << well.out;
  const Outcome other = testing::run(anello({"doctor"}), {.environment = {setting, "ANELLO_JOB=another"}});
  EXPECT_TRUE(contains(other.out, "this is not job 'another'")) << other.out;
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  const Outcome gone = testing::run(anello({"doctor"}), {.environment = {setting, "ANELLO_START_TIMEOUT=200"}});
  EXPECT_EQ(gone.code, 1);
  EXPECT_TRUE(contains(gone.out, "no rendezvous at " + address)) << gone.out;
}

TEST(Start, IsLoggedWithWhatRunsWhereAndHow) {
  const Outcome outcome = testing::run(anello({"run", "-n", "3", "--", WAITER, "early"}),
                                       {.environment = {"ANELLO_LOG=info", "ANELLO_STALL_TIME=5000"}});
  for (const std::string& part :
       {"rank 1: info: anello " + std::string(version()) + ": rank 1 of 3 is pid ", std::string("local rank 2 of 3, "),
        std::string("it listens at 127.0.0.1:"), std::string("(lo)"),
        std::string("info: settings that differ from their defaults: ANELLO_STALL_TIME=5000, ANELLO_LOG=info\n"),
        std::string("info: hosts: "), std::string(" (ranks 0-2)\n"),
        std::string("info: transport: shared memory between all ranks\n"), std::string("info: allreduce: "),
        std::string(" above; layout for ANELLO_TABLE: 3 1 memory ")})
    EXPECT_TRUE(contains(outcome.err, part)) << part << " is not in\n" << outcome.err;
}

TEST(Settings, ThatAreMisspeltAreWarnedOf) {
  const Outcome outcome = testing::run({WAITER, "early"}, {.environment = {"ANELLO_SIZ=2"}});
  EXPECT_TRUE(contains(outcome.err, "warning: ANELLO_SIZ is not a setting and is ignored; ANELLO_SIZE is one\n"))
      << outcome.err;
}

}  // namespace
}  // namespace anello::launch
