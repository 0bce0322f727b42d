#include "rendezvous/launch/run/followed_hosts.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/launch/job/host_selection.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;
constexpr Cooldown kUsualRest{milliseconds(10000), milliseconds(600000)};
constexpr int kMaxPlaces = 65536;

}  // namespace

FollowedHosts::FollowedHosts(Parts parts, const Inherited& inherited) : parts_(std::move(parts)) {
  if (!parts_.job.discovery.empty()) discovery_.emplace(parts_.job.discovery, inherited);
}

void FollowedHosts::watch(PollSet& polls) {
  if (discovery_) discovery_->watch(polls);
}

void FollowedHosts::tick() {
  release_empty_hosts();
  if (!discovery_) return;
  if (const std::optional<Hosts> listed = discovery_->tick()) follow(*listed);
  if (std::exchange(failure_, discovery_->failure()) != discovery_->failure() && !failure_.empty())
    parts_.print(failure_ + "; the hosts stay as they are until it succeeds");
}

// The user may have repaired hosts that were lost, so none of them rests.
void FollowedHosts::read_again() try {
  rests_.clear();
  parts_.job.hosts = read_hosts_again(parts_.job);
  parts_.print(text("the hosts are read again from ", parts_.job.host_file));
  follow(parts_.job.hosts);
} catch (const Error& error) {
  parts_.print(error.message() + "; the hosts stay as they are");
}

// Ends the agents of hosts that are no longer listed, when no process is left there.
void FollowedHosts::release_empty_hosts() {
  std::erase_if(to_release_, [this](std::size_t i) {
    const HostRanks here = parts_.job.layout[i];
    if (!parts_.supervisor.is_empty(here)) return false;
    parts_.ranks.release(here);
    return true;
  });
}

bool FollowedHosts::is_used(const std::string& host) const {
  for (std::size_t i = 0; i < parts_.job.layout.size(); i++)
    if (same_host(parts_.job.layout[i].host, host) && !left_.contains(i)) return true;
  return false;
}

// A host that is listed again after it was lost gets new places and a new agent.
void FollowedHosts::follow(const Hosts& listed) {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < parts_.job.layout.size(); i++) {
    const HostRanks here = parts_.job.layout[i];
    const auto is_here = [&](const Host& one) { return same_host(one.name, here.host); };
    if (left_.contains(i) || std::ranges::any_of(listed, is_here)) continue;
    left_.insert(i);
    to_release_.insert(i);
    parts_.print(text("host ", here.host, " is no longer listed; its processes leave at the next commit"));
    parts_.supervisor.leave_places(here, now);
  }
  for (const Host& one : listed)
    if (!is_used(one.name) && now >= rests_[one.name].until) add(one, now);
}

void FollowedHosts::add(const Host& host, Clock::time_point now) try {
  Job& job = parts_.job;
  const int slots = job.per_host.value_or(host.slots.value_or(1));
  const HostRanks added{host.name, job.size, std::min(slots, job.elastic->max)};
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

// A host that has failed is used again only after a time, which grows with each failure.
void FollowedHosts::let_rest(const std::string& host) {
  Rest& rest = rests_[host];
  rest.until = Clock::now() + parts_.job.elastic->cooldown.value_or(kUsualRest).after(++rest.failures);
}

Hosts FollowedHosts::remaining() const {
  Hosts out;
  for (std::size_t i = 0; i < parts_.job.layout.size(); i++)
    if (!left_.contains(i)) out.push_back({parts_.job.layout[i].host, parts_.job.layout[i].count});
  return out;
}

}  // namespace anello::launch
