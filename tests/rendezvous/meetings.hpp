// A job whose ranks are threads that meet at ports of this host, with a process manager and a munged in memory.
#pragma once
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/client/client.hpp"
#include "rendezvous/join/job_ports.hpp"
#include "rendezvous/join/meeting.hpp"
#include "ring/base/text.hpp"
#include "ring/net/auth.hpp"
#include "tests/rendezvous/fake_munge.hpp"
#include "tests/rendezvous/fake_space.hpp"
#include "tests/support/free_ports.hpp"

namespace anello::rendezvous {

inline constexpr int kMe = 1000, kOther = 2000;

// A job of ranks on this host, or of ranks that behave as if on several hosts.
struct TestJob {
  int size = 3;
  Placement way = {.launcher = "Slurm step 7.0", .size = 3, .way = Way::first_host, .host = "127.0.0.1"};
  std::set<int> on_one_host;          // ranks that have LOCAL_WORLD_SIZE
  std::map<int, std::string> job_of;  // ANELLO_JOB of ranks
  Settings settings;
  FakeMunged munged;
  FakeManager manager{3};

  explicit TestJob(const std::string& name = "") {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    int number = 0;
    do way.job = text("test-", getpid(), "-", number++, "-", test->name(), name);
    while (!std::ranges::all_of(job_ports(way.job, ""), is_free));
    way.place = way.job;
    settings.start_timeout = std::chrono::milliseconds(60000);
  }

  JoinPlan plan(int rank) const {
    JoinPlan out{settings, false, {way}};
    out.ways[0].rank = out.settings.rank = rank;
    out.ways[0].serves = rank == 0;
    out.ways[0].one_host |= on_one_host.contains(rank);
    out.settings.size = size;
    if (const auto own = job_of.find(rank); own != job_of.end()) out.settings.job = own->second;
    return out;
  }

  MeetingHooks hooks(int rank, int user = kMe) {
    return {
        .open_space = [this, rank](Way, auto) { return std::make_unique<FakeSpace>(manager, rank); },
        .munge = [this, user] { return std::make_shared<FakeMunge>(munged, user); },
    };
  }

  // Returns "rank 1 of 3", or the error.
  std::string join(int rank) {
    std::optional<Meeting> meeting;
    try {
      meeting.emplace(plan(rank), hooks(rank));
      EXPECT_EQ(meeting->secret().empty(), net::make_secret().empty());
      RendezvousClient client(meeting->settings(), meeting->secret(), meeting->server());
      client.exchange("");
      client.leave();
      meeting->wait_for_others(client.identity().generation);
      return text("rank ", client.identity().rank, " of ", client.identity().size);
    } catch (const Error& error) {
      if (meeting) meeting->conclude(error);
      return error.what();
    }
  }

  std::vector<std::string> join_all() {
    std::vector<std::future<std::string>> ranks;
    for (int rank = size - 1; rank >= 0; rank--)
      ranks.push_back(std::async(std::launch::async, [this, rank] { return join(rank); }));
    std::vector<std::string> out;
    for (auto& rank : ranks) out.push_back(rank.get());
    return out;
  }
};

// Tests of ways to meet that need a secret.
class MeetingWithASecret : public ::testing::Test {
 protected:
  void SetUp() override {
    if (net::make_secret().empty()) GTEST_SKIP() << "built without OpenSSL";
  }
};

inline const auto kAllJoined = ::testing::ElementsAre("rank 2 of 3", "rank 1 of 3", "rank 0 of 3");

}  // namespace anello::rendezvous
