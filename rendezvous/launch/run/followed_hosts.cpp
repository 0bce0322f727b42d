#include "rendezvous/launch/run/followed_hosts.hpp"

#include <algorithm>
#include <utility>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kFirstHostRest{10000}, kMaxHostRest{600000};
constexpr int kMaxPlaces = 65536;

}  // namespace

FollowedHosts::FollowedHosts(Parts parts, const Inherited& inherited)
    : parts_(std::move(parts)), discovery_(parts_.job.discovery, inherited) {}

void FollowedHosts::watch(PollSet& polls) {
  discovery_.watch(polls);
}

void FollowedHosts::tick() {
  if (const std::optional<Hosts> listed = discovery_.tick()) follow(*listed);
  if (std::exchange(failure_, discovery_.failure()) != discovery_.failure() && !failure_.empty())
    parts_.print(failure_ + "; the hosts stay as they are until it succeeds");
}

bool FollowedHosts::is_used(const std::string& host) const {
  for (std::size_t i = 0; i < parts_.job.layout.size(); i++)
    if (parts_.job.layout[i].host == host && !left_.contains(i)) return true;
  return false;
}

// A host that is listed again after it was lost gets new places and a new agent.
void FollowedHosts::follow(const Hosts& listed) {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < parts_.job.layout.size(); i++) {
    const HostRanks here = parts_.job.layout[i];
    if (left_.contains(i) || std::ranges::find(listed, here.host, &Host::name) != listed.end()) continue;
    left_.insert(i);
    parts_.print(text("host ", here.host, " is no longer listed; its processes leave at the next commit"));
    parts_.supervisor.leave_places(here, now);
  }
  for (const Host& one : listed)
    if (!is_used(one.name)) add(one, now);
}

void FollowedHosts::add(const Host& host, Clock::time_point now) try {
  Job& job = parts_.job;
  if (rests_.contains(host.name) && now < rests_[host.name].until) return;
  const HostRanks added{host.name, job.size, std::min(host.slots.value_or(1), job.elastic->max)};
  if (job.size + added.count > kMaxPlaces)
    throw Error(ErrorCode::configuration, text("the job would have more than ", kMaxPlaces, " places"));
  int places = added.count;
  for (const Host& one : remaining()) places += *one.slots;
  raise_open_files_limit(places);
  std::vector<RankEnds> ends = parts_.make_ends(added);
  job.layout.push_back(added);
  job.size += added.count;
  parts_.print(text("host ", host.name, " is listed, with ", added.count, added.count == 1 ? " slot" : " slots"));
  parts_.ranks.add_host(added, std::move(ends));
  parts_.supervisor.grow(now);
} catch (const Error& error) {
  let_rest(host.name);
  parts_.print(text("host ", host.name, " is not used: ", error.message()));
}

void FollowedHosts::lost(const HostRanks& host) {
  for (std::size_t i = 0; i < parts_.job.layout.size(); i++)
    if (parts_.job.layout[i].first == host.first) left_.insert(i);
  let_rest(host.host);
}

// A host that fails again and again is used after growing times.
void FollowedHosts::let_rest(const std::string& host) {
  Rest& rest = rests_[host];
  rest.length = std::clamp(2 * rest.length, kFirstHostRest, kMaxHostRest);
  rest.until = Clock::now() + rest.length;
}

Hosts FollowedHosts::remaining() const {
  Hosts out;
  for (std::size_t i = 0; i < parts_.job.layout.size(); i++)
    if (!left_.contains(i)) out.push_back({parts_.job.layout[i].host, parts_.job.layout[i].count});
  return out;
}

}  // namespace anello::launch
