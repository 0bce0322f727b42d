// PMI-1: its lines, its client against a strict process manager, and whole processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <deque>
#include <thread>

#include "rendezvous/join/pmi_client.hpp"
#include "ring/base/text.hpp"
#include "tests/rendezvous/fake_pmi.hpp"
#include "tests/support/process.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Kind = FakePmi::Kind;

template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::invalid_argument, "nothing was thrown");
}

TEST(PmiMessage, HasACommandAndFields) {
  const PmiMessage message = parse_pmi_message("cmd=get_result rc=-1 msg=a=b value= ");
  EXPECT_EQ(message.command, "get_result");
  EXPECT_EQ(message.number("rc", -9, 9), -1);
  EXPECT_EQ(message.field("msg"), "a=b");
  EXPECT_EQ(message.field("value"), "");
  EXPECT_THAT(error_of([&] { message.field("size"); }).what(), HasSubstr("'get_result' has no field 'size'"));
  EXPECT_THAT(error_of([&] { message.number("msg", 0, 9); }).what(), HasSubstr("'get_result': msg='a=b' is not"));
}

TEST(PmiMessage, AnythingElseIsRefusedWithTheReason) {
  const std::map<std::string, std::string> reasons = {{"", "empty"},
                                                      {"  ", "empty"},
                                                      {"rc=0 cmd=x", "begin with one cmd="},
                                                      {"cmd=", "begin with one cmd="},
                                                      {"cmd=x cmd=y", "begin with one cmd="},
                                                      {"cmd=x a=1 a=2", "'a' appears twice"},
                                                      {"cmd=x word", "'word' is not name=value"},
                                                      {"cmd=x =1", "is not name=value"},
                                                      {"cmd=x a=\x1b[2J", "not printable ASCII"},
                                                      {"cmd=x a=" + std::string(5000, 'y'), "longer than 4096"}};
  for (const auto& [line, reason] : reasons) {
    const Error error = error_of([&line = line] { parse_pmi_message(line); });
    EXPECT_EQ(error.code(), ErrorCode::protocol) << line;
    EXPECT_THAT(error.what(), HasSubstr(reason));
  }
}

class EachManager : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(, EachManager, ::testing::Values(Kind::hydra, Kind::slurm),
                         [](const auto& tested) { return tested.param == Kind::hydra ? "hydra" : "slurm"; });

TEST_P(EachManager, CarriesValuesFromEachProcessToAll) {
  FakePmi manager(GetParam(), 3);
  std::deque<std::thread> processes;
  for (int rank = 0; rank < 3; rank++)
    processes.emplace_back([&manager, rank] {
      PmiClient client({.fd = manager.fd(rank), .rank = rank, .size = 3}, testing::kLong);
      EXPECT_EQ(client.space(), "kvs_7");
      client.put(text("key", rank), text("value", rank));
      client.barrier();
      for (int other = 0; other < 3; other++) EXPECT_EQ(client.get(text("key", other)), text("value", other));
      EXPECT_EQ(error_of([&] { client.get("nothing"); }).code(), ErrorCode::protocol);
      EXPECT_EQ(client.get("key0"), "value0");
      client.finalize();
    });
  for (std::thread& process : processes) process.join();
  EXPECT_THAT(manager.complaints(), IsEmpty());
  EXPECT_EQ(manager.finalized(), 3);
}

TEST_P(EachManager, RefusesAKeyThatWasPutBefore) {
  FakePmi manager(GetParam(), 1);
  PmiClient client({.fd = manager.fd(0), .rank = 0, .size = 1, .manager = "the fake"}, testing::kLong);
  client.put("key", "value");
  EXPECT_STREQ(error_of([&] { client.put("key", "other"); }).what(), "the fake: it refused key 'key'");
  EXPECT_STREQ(error_of([&] { client.barrier(); }).what(), "the fake: it refused key 'key'");
}

TEST(PmiClient, WhatAMessageCannotCarryIsNotSent) {
  FakePmi manager(Kind::hydra, 1);
  PmiClient client({.fd = manager.fd(0), .rank = 0, .size = 1}, testing::kLong);
  for (const std::string value : {"", "a b", "a\n", "a=b", "a;b", "\xc3\xa4"})
    EXPECT_EQ(error_of([&] { client.put("key", value); }).code(), ErrorCode::invalid_argument) << value;
  EXPECT_EQ(error_of([&] { client.put("key", std::string(1024, 'x')); }).code(), ErrorCode::unsupported);
  EXPECT_EQ(error_of([&] { client.put(std::string(64, 'x'), "value"); }).code(), ErrorCode::unsupported);
  client.put(std::string(63, 'x'), std::string(1023, 'x'));
  client.finalize();
  EXPECT_THAT(manager.complaints(), IsEmpty());
}

TEST(PmiClient, AProcessThatDoesNotComeIsATimeOut) {
  FakePmi manager(Kind::hydra, 2);
  PmiClient client({.fd = manager.fd(0), .rank = 0, .size = 2, .manager = "the fake"}, testing::kLong);
  client.set_limit(milliseconds(100));
  const Error error = error_of([&] { client.barrier(); });
  EXPECT_EQ(error.code(), ErrorCode::timed_out);
  EXPECT_THAT(error.what(), HasSubstr("the fake: no answer over PMI within 0.1 s"));
  EXPECT_THAT(error_of([&] { client.get("key"); }).what(), HasSubstr("no answer over PMI within 0.1 s"));
}

TEST(PmiClient, ADescriptorThatIsNoSocketIsNamed) {
  const Descriptor file(open("/dev/null", O_RDWR | O_CLOEXEC));
  const PmiLink closed{.fd = 999, .rank = 0, .size = 1, .manager = "the fake"};
  const PmiLink other{.fd = file.get(), .rank = 0, .size = 1};
  EXPECT_THAT(error_of([&] { PmiClient(closed, testing::kLong); }).what(),
              HasSubstr("the fake: descriptor 999 is not an open socket"));
  EXPECT_EQ(error_of([&] { PmiClient(other, testing::kLong); }).code(), ErrorCode::unsupported);
}

// A rank does not trust the answers of a manager. Each text here is a manager's whole answer to the first request.
TEST(PmiClient, AnswersThatAreNoneAreErrors) {
  const std::string greeting = "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n";
  const std::map<std::string, std::string> reasons = {
      {"\n", "it is empty"},
      {"HTTP/1.1 400 Bad Request\r\n", "not printable ASCII"},
      {"cmd=maxes rc=0\n", "it sent PMI message 'maxes' where 'response_to_init' was due"},
      {"cmd=response_to_init rc=-1 pmi_version=2 pmi_subversion=0\n", "does not support version 1"},
      {"cmd=response_to_init pmi_version=1\n", "no field 'rc'"},
      {greeting + "cmd=maxes keylen_max=64 vallen_max=1024\n", "that was not asked for"},
      {std::string(10000, 'x'), "without an end"},
      {"cmd=response_to_init rc=0", "it closed the connection"}};
  for (const auto& [bytes, reason] : reasons) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const Descriptor process(ends[0]);
    Descriptor manager(ends[1]);
    ASSERT_EQ(send(manager.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
    shutdown(manager.get(), SHUT_WR);
    const PmiLink link{.fd = process.get(), .rank = 0, .size = 1, .manager = "the fake"};
    EXPECT_THAT(error_of([&] { PmiClient(link, testing::kLong); }).what(), HasSubstr(reason)) << bytes.substr(0, 80);
  }
}

// Returns the output of processes that this manager starts, by rank. Only the first process gets `first_also`.
std::vector<std::string> outputs_of(FakePmi& manager, const std::vector<std::vector<std::string>>& environments,
                                    const std::vector<std::string>& how,
                                    const std::vector<std::string>& first_also = {}) {
  std::vector<std::string> command = {KEY_VALUES, "pmi"}, out;
  command.insert(command.end(), how.begin(), how.end());
  std::deque<testing::Process> processes;
  for (const auto& environment : environments) {
    std::vector<std::string> own = command;
    if (processes.empty()) own.insert(own.end(), first_also.begin(), first_also.end());
    processes.emplace_back(own, testing::Surroundings{.environment = environment});
  }
  manager.close_ends_of_processes();
  for (testing::Process& process : processes) {
    EXPECT_EQ(process.wait(), 0) << process.out() << process.err();
    out.push_back(process.out());
  }
  return out;
}

TEST_P(EachManager, ServesProcessesAlsoInASecondWorld) {
  FakePmi manager(GetParam(), 2);
  EXPECT_THAT(outputs_of(manager, {manager.environment(0), manager.environment(1)}, {"twice"}),
              ElementsAre("rank 0 of 2 in kvs_7: 0 1; no 'nothing'\nrank 0 of 2 in kvs_7.2: 0 1; no 'nothing'\n",
                          "rank 1 of 2 in kvs_7: 0 1; no 'nothing'\nrank 1 of 2 in kvs_7.2: 0 1; no 'nothing'\n"));
  EXPECT_THAT(manager.complaints(), IsEmpty());
  EXPECT_EQ(manager.finalized(), 2);
}

TEST_P(EachManager, ServesProcessesOfWhichOneHasFailedBefore) {
  FakePmi manager(GetParam(), 2);
  EXPECT_THAT(outputs_of(manager, {manager.environment(0), manager.environment(1)}, {}, {"fail"}),
              ElementsAre("rank 0 of 2 in kvs_7: 0 1; no 'nothing'\n", "rank 1 of 2 in kvs_7: 0 1; no 'nothing'\n"));
  EXPECT_THAT(manager.complaints(), IsEmpty());
}

TEST(Pmi, AProcessMayConnectToItsManager) {
  FakePmi manager(Kind::hydra, 2);
  EXPECT_THAT(outputs_of(manager, {manager.environment_with_port(0), manager.environment_with_port(1)}, {}),
              ElementsAre("rank 0 of 2 in kvs_7: 0 1; no 'nothing'\n", "rank 1 of 2 in kvs_7: 0 1; no 'nothing'\n"));
  EXPECT_THAT(manager.complaints(), IsEmpty());
  EXPECT_EQ(manager.finalized(), 2);
}

TEST(Pmi, AForkedProcessDoesNotSpeakForItsParent) {
  FakePmi manager(Kind::hydra, 1);
  EXPECT_THAT(outputs_of(manager, {manager.environment(0)}, {"fork"}),
              ElementsAre(HasSubstr("forked: a forked process cannot use PMI")));
  EXPECT_THAT(manager.complaints(), IsEmpty());
  EXPECT_EQ(manager.finalized(), 1);
}

// The fake must complain.
TEST(Pmi, AProcessThatVanishesHasNotFinalized) {
  FakePmi manager(Kind::hydra, 1);
  outputs_of(manager, {manager.environment(0)}, {"vanish"});
  while (manager.complaints().empty()) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_THAT(manager.complaints(), ElementsAre("rank 0 ended without finalize"));
}

TEST(Pmi, WithoutAManagerThereIsNone) {
  const testing::Outcome alone = testing::run({KEY_VALUES, "pmi"}, {.environment = {"PMI_FD", "PMI_PORT"}});
  EXPECT_EQ(alone.out, "no process manager\n");
}

TEST(Pmi, AContradictoryEnvironmentIsNamed) {
  const auto output = [](std::vector<std::string> environment) {
    return testing::run({KEY_VALUES, "pmi"}, {.environment = std::move(environment)}).out;
  };
  EXPECT_THAT(output({"PMI_FD=x"}), HasSubstr("PMI_FD='x' is not a whole number"));
  EXPECT_THAT(output({"PMI_FD=9", "PMI_SIZE=2", "PMI_RANK=2"}),
              HasSubstr("PMI_RANK='2' is not a whole number from 0 to 1"));
  EXPECT_THAT(output({"PMI_FD=9", "PMI_SIZE=2", "PMI_RANK=1"}), HasSubstr("descriptor 9 is not an open socket"));
  EXPECT_THAT(output({"PMI_PORT=nowhere", "PMI_ID=0"}), HasSubstr("PMI_PORT"));
  EXPECT_THAT(output({"PMI_PORT=127.0.0.1:1", "PMI_ID=0", "HYDI_CONTROL_FD=7"}),
              HasSubstr("MPICH's mpiexec: connecting to PMI_PORT=127.0.0.1:1: Connection refused"));
}

}  // namespace
}  // namespace anello::rendezvous
