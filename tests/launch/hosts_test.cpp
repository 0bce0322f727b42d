// Lists of hosts, allocations of schedulers, and the distribution of ranks over hosts.
#include "rendezvous/launch/job/hosts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <anello/error.hpp>
#include <functional>
#include <map>

#include "rendezvous/launch/job/host_selection.hpp"
#include "rendezvous/launch/job/layout.hpp"
#include "ring/base/text.hpp"
#include "tests/support/scratch.hpp"

namespace anello::launch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string shown(const Hosts& hosts) {
  std::string out;
  for (const Host& host : hosts) out += text(host.name, "=", host.slots ? std::to_string(*host.slots) : "?", " ");
  return out;
}

std::string shown(const Layout& layout) {
  std::string out;
  for (const HostRanks& here : layout) out += text(here.host, ":", here.first, "+", here.count, " ");
  return out;
}

std::string mistake(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.code() == ErrorCode::configuration ? error.what() : text("another error: ", error.what());
  }
  return "none";
}

TEST(HostList, HasNamesAndSlots) {
  EXPECT_EQ(shown(parse_host_list("-H", "h1:4,h2")), "h1=4 h2=1 ");
  EXPECT_EQ(shown(parse_host_list("-H", "me@h1:2, 10.0.0.1:3 ,[fd00::1]:2,me@[fe80::1%eth0]")),
            "me@h1=2 10.0.0.1=3 fd00::1=2 me@fe80::1%eth0=1 ");
  EXPECT_EQ(shown(parse_host_list("-H", "h1:2,h2,h1:3,h2")), "h1=5 h2=2 ") << "slots of a host add up";
}

TEST(HostList, MistakesAreNamed) {
  for (const auto& entry : std::map<std::string, std::string>{{"", "a host's name is missing"},
                                                              {"h1,,h2", "a host's name is missing"},
                                                              {"h1,", "a host's name is missing"},
                                                              {":4", "a host's name is missing"},
                                                              {"h1:", "slots"},
                                                              {"h1:0", "slots"},
                                                              {"h1:-1", "slots"},
                                                              {"h1:4 h2:4", "write commas between hosts"},
                                                              {"h1:4x", "slots"},
                                                              {"h1:99999999999999999999", "slots"},
                                                              {"h1:70000", "slots"},
                                                              {"fd00::1", "write an IPv6 address in brackets"},
                                                              {"fd00::1:4", "write an IPv6 address in brackets"},
                                                              {"[fd00::1", "no closing bracket"},
                                                              {"[h1]:4", "'h1' in brackets is not an IPv6 address"},
                                                              {"[fd00::1]4", "only :SLOTS may follow"},
                                                              {"[fd00::1]:", "slots"},
                                                              {"-oProxyCommand=x", "not the name"},
                                                              {"h1;reboot", "not the name"},
                                                              {"$(id)", "not the name"},
                                                              {"h1 h2", "write commas between hosts"},
                                                              {"@h1", "not the name"},
                                                              {"me@", "not the name"},
                                                              {"h1\x1b"
                                                               "c",
                                                               "'h1?c' is not the name"}})
    EXPECT_THAT(mistake([&] { parse_host_list("-H", entry.first); }), AllOf(HasSubstr("-H"), HasSubstr(entry.second)))
        << entry.first;
}

TEST(HostFile, HasAHostOnEachLine) {
  EXPECT_EQ(shown(parse_host_file("f", "# ours\n\n h1 slots=4  # first\nh2:2\r\n[fd00::3]  slots=3\nh4\nh1 slots=1")),
            "h1=5 h2=2 fd00::3=3 h4=1 ");
}

TEST(HostFile, IsUnderstoodAsOpenMpiAndMpichWriteIt) {
  const Hosts hosts =
      parse_host_file("f", "h1 slots = 2 max-slots= 4\nh2:3\n\th3\tmax_slots =2\nh1 slots =1 max_slots=1\n");
  EXPECT_EQ(shown(hosts), "h1=3 h2=3 h3=1 ");
  EXPECT_EQ(hosts[0].max_slots, 5);
  EXPECT_EQ(hosts[2].max_slots, 2);
}

TEST(HostFile, MistakesAreNamedWithTheirLine) {
  for (const auto& entry :
       std::map<std::string, std::string>{{"", "names no host"},
                                          {"# nothing\n\n", "names no host"},
                                          {"h1\nh2 slot=4", "f:2: 'slot=4' is not known; write slots=N or max-slots=N"},
                                          {"h1 4", "f:1: '4' is not known"},
                                          {"h1 slots=", "f:1"},
                                          {"h1 slots=x", "f:1"},
                                          {"h1 slots=0", "f:1"},
                                          {"h1:2 slots=2", "f:1: the slots of h1 are given twice"},
                                          {"h1\n\n-v", "f:3"},
                                          {"h1\nh2 max_slots=x", "f:2"},
                                          {"h1 slots=4 max-slots=2", "f:1: h1 has 4 slots, more than its max-slots=2"},
                                          {"h1 slots = 2 slots = 2", "f:1: the slots of h1 are given twice"},
                                          {"h1 slots", "f:1: 'slots' is not known; write slots=N or max-slots=N"},
                                          {"h1 slots 4", "f:1: 'slots' is not known"},
                                          {"h1 =4", "f:1"},
                                          {"h1:2 ifhn=eth1", "f:1: 'ifhn=eth1' is not known"}})
    EXPECT_THAT(mistake([&] { parse_host_file("f", entry.first); }), HasSubstr(entry.second)) << entry.first;
}

// Editors write such bytes and do not show them.
TEST(HostFile, WhatIsInvisibleDoesNoHarmOrIsNamed) {
  for (const char* file : {"\xef\xbb\xbfh1 slots=2\r\nh2 slots=3\r\n", "h1\tslots=2\rh2\t slots =\t3\r",
                           "h1:2 # \xc3\xbc, \xef\xbc\x91\nh2:3\n"})
    EXPECT_EQ(shown(parse_host_file("f", file)), shown(parse_host_list("-H", "h1:2,h2:3"))) << file;
  for (const auto& [file, message] : std::map<std::string, std::string>{
           {"h1\n\xef\xbb\xbfh2", "f:2: '\xef\xbb\xbfh2' has the character U+FEFF (an invisible byte order mark)"},
           {"h1\xc2\xa0slots=4", "has the character U+00A0 (a space that does not break a line)"},
           {"h1\xe2\x80\x8b", "has the character U+200B (an invisible character)"},
           {"h\xe2\x80\x93"
            "1",
            "has the character U+2013 (a hyphen or dash that is not on the keyboard)"},
           {"h1 slots=\xef\xbc\x94", "has the character U+FF14 (a wide character)"},
           {"h\xc3\xb6st", "has the character U+00F6; write it with letters, digits, spaces and signs of the keyboard"},
           {"h1\xa0slots=4", "has the character the byte 0xa0, which is not UTF-8"},
           {std::string("\xff\xfeh\0001\0\n\0", 8),
            "f: it is UTF-16 or binary, not text in UTF-8 or ASCII; save it as UTF-8"},
           {std::string("h\0001\0\n\0", 6), "f: it is UTF-16 or binary"}})
    EXPECT_THAT(mistake([&] { parse_host_file("f", file); }), HasSubstr(message)) << file;
  EXPECT_THAT(mistake([&] { parse_host_list("-H", "h1:4\xef\xbc\x8ch2:4"); }),
              HasSubstr("-H: 'h1:4\xef\xbc\x8ch2:4' has the character U+FF0C (a wide character)"));
}

class Allocations : public ::testing::Test {
 protected:
  std::string found() {
    const auto lookup = [&](const char* name) {
      const auto entry = variables_.find(name);
      return entry == variables_.end() ? std::nullopt : std::optional(entry->second);
    };
    const auto allocation = find_allocation(lookup, [&](const std::string& path) { return files_.at(path); });
    return allocation ? allocation->name + ": " + shown(allocation->hosts) : "none";
  }
  std::map<std::string, std::string> variables_, files_;
};

TEST_F(Allocations, AreFoundByTheirVariables) {
  EXPECT_EQ(found(), "none");
  variables_ = {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "h[0-2]"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  EXPECT_EQ(found(), "Slurm job 7: h0=2 h1=2 h2=1 ");
  variables_ = {{"PBS_JOBID", "8.s"}, {"PBS_NODEFILE", "/f"}};
  files_["/f"] = "h1\nh1\nh2\n\nh1\n";
  EXPECT_EQ(found(), "PBS job 8.s: h1=3 h2=1 ");
  variables_ = {{"COBALT_JOBID", "9"}, {"COBALT_NODEFILE", "/f"}};
  files_["/f"] = "gpu1\ngpu2\n";
  EXPECT_EQ(found(), "Cobalt job 9: gpu1=? gpu2=? ");
  variables_ = {{"JOB_ID", "10"}, {"PE_HOSTFILE", "/f"}};
  files_["/f"] = "h1.site 4 all.q@h1 UNDEFINED\nh2.site 2 all.q@h2 <NULL>\n";
  EXPECT_EQ(found(), "Grid Engine job 10: h1.site=4 h2.site=2 ");
  variables_ = {{"LSB_JOBID", "11"}, {"LSB_MCPU_HOSTS", "h1 4 h2 4 "}};
  EXPECT_EQ(found(), "LSF job 11: h1=4 h2=4 ");
}

TEST_F(Allocations, AStepHasItsOwnHosts) {
  variables_ = {{"SLURM_JOB_ID", "7"},
                {"SLURM_JOB_NODELIST", "h[0-2]"},
                {"SLURM_TASKS_PER_NODE", "1"},
                {"SLURM_STEP_ID", "0"},
                {"SLURM_STEP_NODELIST", "h1"}};
  EXPECT_EQ(found(), "Slurm job 7: h1=1 ");
  variables_["SLURM_STEP_ID"] = "4294967290";  // the step of salloc's shell, which has all hosts
  variables_["SLURM_TASKS_PER_NODE"] = "1(x3)";
  EXPECT_EQ(found(), "Slurm job 7: h0=1 h1=1 h2=1 ");
}

TEST_F(Allocations, MistakesAreNamed) {
  variables_ = {{"SLURM_JOB_NODELIST", "h[0-2]"}, {"SLURM_TASKS_PER_NODE", "2"}};
  EXPECT_THAT(mistake([&] { found(); }),
              HasSubstr("SLURM_JOB_NODELIST='h[0-2]' has 3 hosts, but SLURM_TASKS_PER_NODE='2' has 1 numbers"));
  variables_["SLURM_JOB_NODELIST"] = "h[";
  EXPECT_THAT(mistake([&] { found(); }),
              HasSubstr("SLURM_JOB_NODELIST='h[' cannot be understood; name the hosts by -H"));
  variables_["SLURM_JOB_NODELIST"] = "h1;x";
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("SLURM_JOB_NODELIST: 'h1;x'"));
  variables_ = {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "h[0-2]"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}};
  EXPECT_THAT(mistake([&] { found(); }),
              AllOf(HasSubstr("SLURM_STEP_NODELIST"), HasSubstr("SLURM_STEP_TASKS_PER_NODE")));
  variables_["SLURM_HET_SIZE"] = "2";
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("heterogeneous job"));
  variables_ = {{"LSB_MCPU_HOSTS", "h1 4 h2"}};
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("LSB_MCPU_HOSTS='h1 4 h2' cannot be understood"));
  variables_ = {{"LSB_MCPU_HOSTS", "h1 four"}};
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("LSB_MCPU_HOSTS"));
  variables_ = {{"PE_HOSTFILE", "/f"}};
  files_["/f"] = "h1 4\nh2 many\n";
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("/f:2: slots"));
  files_["/f"] = "\n";
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("PE_HOSTFILE='/f' cannot be understood"));
  files_["/f"] = "\xef\xbb\xbfh1 4\n";
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("has the character U+FEFF"));
  variables_ = {{"PBS_NODEFILE", "/f"}};
  files_["/f"] = "h1\n-oX\n";
  EXPECT_THAT(mistake([&] { found(); }), HasSubstr("/f:2"));
}

TEST(LayoutOfRanks, FillsHostsInOrder) {
  const Hosts hosts = {{"h1", 4}, {"h2", 2}, {"h3", 4}};
  EXPECT_EQ(shown(lay_out(hosts, {})), "h1:0+4 h2:4+2 h3:6+4 ");
  EXPECT_EQ(shown(lay_out(hosts, {.ranks = 7})), "h1:0+4 h2:4+2 h3:6+1 ");
  EXPECT_EQ(shown(lay_out(hosts, {.ranks = 3})), "h1:0+3 ") << "hosts without ranks are left out";
  EXPECT_EQ(shown(lay_out(hosts, {.ranks = 3, .per_host = 1})), "h1:0+1 h2:1+1 h3:2+1 ");
  EXPECT_EQ(shown(lay_out(hosts, {.per_host = 5})), "h1:0+5 h2:5+5 h3:10+5 ") << "-N counts, whatever the slots are";
  EXPECT_EQ(shown(lay_out({{"g1", {}}, {"g2", {}}}, {.ranks = 5})), "g1:0+3 g2:3+2 ") << "evenly";
}

TEST(LayoutOfRanks, TooFewSlotsAreAnErrorWithTheNumbersAndTheRemedy) {
  EXPECT_THAT(mistake([] {
                lay_out({{"h1", 4}, {"h2", 2}}, {.ranks = 8});
              }),
              AllOf(HasSubstr("8 ranks do not fit: there are 6 slots on 2 hosts (h1: 4, h2: 2)"), HasSubstr("-N 4")));
  EXPECT_THAT(mistake([] {
                lay_out({{"h1", 4}, {"h2", 2}}, {.ranks = 8, .per_host = 3});
              }),
              HasSubstr("-N 3 on 2 hosts is 6"));
  EXPECT_THAT(mistake([] {
                lay_out({{"h1", 4}, {"h2", 2, 3}}, {.per_host = 4});
              }),
              HasSubstr("-N 4 is more than the max-slots=3 of h2"));
  EXPECT_THAT(mistake([] { lay_out({}, {.ranks = 4}); }), HasSubstr("no host is left"));
}

TEST(Hosts, AFileThatIsReadAgainAlsoGetsTheNamesOfTheAllocation) {
  const Scratch scratch;
  scratch.put("hosts", "n1:2\n");
  const Allocation allocation{Scheduler::pbs, "PBS job 7", {{"n1.cluster", 2}, {"n2.cluster", 2}}};
  Job job;
  job.elastic = ElasticJob{.min = 1};
  select_hosts(
      {.host_file = scratch / "hosts"}, [&] { return allocation; }, job);
  EXPECT_EQ(shown(job.hosts), "n1.cluster=2 ");
  scratch.put("hosts", "n1:2\nn2:1\n");
  EXPECT_EQ(shown(read_hosts_again(job)), "n1.cluster=2 n2.cluster=1 ");
  scratch.put("hosts", "n3:2\n");
  EXPECT_THROW(read_hosts_again(job), Error);
}

}  // namespace
}  // namespace anello::launch
