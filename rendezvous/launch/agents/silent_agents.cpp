// Handles agents that do not answer: the agents of some hosts, or all agents.
#include <utility>

#include "rendezvous/launch/agents/remote_ranks.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

// All agents are silent, as if a scheduler had suspended the whole job. Waits until they answer again.
void RemoteRanks::wait_for_all_agents() {
  for (Host& host : hosts_) host.heartbeat.emplace(silence_limit_);
  if (!std::exchange(suspended_, true))
    log(Severity::warning,
        text("no agent of the job answers, as if all are stopped or the job is suspended; the job goes on ",
             "when they do"));
}

// After a suspension of the job, hosts continue at different times. So the first answer restarts the time limits of all
// hosts.
void RemoteRanks::answered(Host& host) {
  const bool was_late = host.heartbeat->late();
  host.heartbeat->answered();
  if (!was_late) return;
  for (Host& other : hosts_)
    if (!other.over) other.heartbeat.emplace(silence_limit_);
}

void RemoteRanks::lose_silent_hosts() {
  if (!started_ || ended_) return;
  const auto now = Clock::now();
  std::vector<Host*> silent;
  std::size_t connected = 0;
  for (Host& host : hosts_) {
    if (host.over || !host.connected()) continue;
    connected++;
    if (host.heartbeat->asks(now)) send(host, {.kind = AgentMessage::Kind::question});
    if (host.heartbeat->silent()) silent.push_back(&host);
  }
  if (silent.empty()) return;
  if (silent.size() == connected) return wait_for_all_agents();
  const double limit_s = double(lifeline_limit(silence_limit_).count()) / 1000;
  lose(silent, text(were_lost(silent.size()), silent.size() == 1 ? "its agent has" : "their agents have",
                    " not answered for ", limit_s, " s (ANELLO_SILENCE_LIMIT), as if stopped (SIGSTOP)"));
}

}  // namespace anello::launch
