// Ranks on several hosts. On each host they are below an agent (agent.hpp), which ssh or a scheduler has started. Ranks
// start when all agents have connected. If an agent does not connect, fails or is cut off, its host is reported as
// lost, and ranks start when all other agents have connected. Owned by the launcher's loop.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/agents/agent_listener.hpp"
#include "rendezvous/launch/agents/agent_messages.hpp"
#include "rendezvous/launch/agents/agent_task.hpp"
#include "rendezvous/launch/agents/heartbeat.hpp"
#include "rendezvous/launch/agents/lifeline.hpp"
#include "rendezvous/launch/agents/message_stream.hpp"
#include "rendezvous/launch/agents/relay.hpp"
#include "rendezvous/launch/agents/starter_process.hpp"
#include "rendezvous/launch/base/signals.hpp"
#include "rendezvous/launch/processes/local_ranks.hpp"

namespace anello::launch {

class RemoteRanks : public RankProcesses {
 public:
  // Starts the processes that start the agents. Call while this process has one thread. `ends`: the pipe ends of all
  // ranks, in the order of the ranks.
  RemoteRanks(const Job& job, std::vector<RankEnds> ends, const Inherited& inherited, RankEvents events);
  // Blocks until the starters have ended, for at most 5 s. A starter ends when its agents have ended all ranks; the
  // starter of a lost host may never end. Kills the starters that are left.
  ~RemoteRanks() override;
  RemoteRanks(const RemoteRanks&) = delete;
  RemoteRanks& operator=(const RemoteRanks&) = delete;

  void start(std::uint16_t port) override;
  void order(const Order& order) override;
  void watch(PollSet& polls) override;
  void tick() override;
  bool output_may_come() const override;

  // Starts an agent on another host, which was appended to the job's layout. Call after start(). If the agent does not
  // connect in time, the host is reported as lost. `ends`: the pipe ends of the host's ranks.
  void add_host(const HostRanks& ranks, std::vector<RankEnds> ends);
  // Ends the agent of a host that is not used any more, and whose processes have ended. The host is not reported as
  // lost.
  void release(const HostRanks& ranks);

 private:
  using Clock = std::chrono::steady_clock;
  struct Host {
    HostRanks ranks;
    std::string address = {};  // address of this host at which the agent reached it
    std::unique_ptr<MessageStream> messages = {};
    std::unique_ptr<Lifeline> lifeline = {};
    std::optional<Heartbeat> heartbeat = {};
    std::vector<std::unique_ptr<RelaySink>> outputs = {};  // by stream
    std::string failure = {};                              // the error that the agent reported
    std::optional<Clock::time_point> gone = {};  // when it was noticed that the agent's connection had ended too early
    std::optional<Clock::time_point> none_left = {};  // when the agent reported that no process of a rank is left
    bool done = false;                                // the agent has sent everything
    bool over = false;                                // the agent's connection has ended
    bool here = false;                                // true if this is the host on which the launcher runs
    bool started = false;                             // its agent has received `start`
    std::vector<Order> early = {};                    // orders to start or kill ranks that were given before `started`
    std::optional<Clock::time_point> due = {};        // if the host was added later: when its agent must have connected
    bool connected() const { return messages && lifeline; }
  };

  static std::string were_lost(std::size_t hosts);  // "was lost: " or "were lost: "
  void take_ends(std::size_t host, int local_rank, RankEnds ends);
  std::unique_ptr<RelaySink> make_sink(std::size_t host, int stream, Descriptor to);
  void give_tasks();
  void give_task(StarterProcess& starter);
  void take_arrivals();
  void ask_for_master();
  void start_ranks();
  void start_host(Host& host);
  bool is_here(const Host& host) const;
  std::string rendezvous_host(const Host& host) const;
  void receive(Host& host, std::string_view bytes);
  void look_after(Host& host);
  bool has_ended_well(const Host& host, const StarterProcess& starter) const;
  bool no_rank_left(const Host& host) const;
  void look_at_starters();
  void lose_gone_hosts();
  void lose_mute_hosts();
  void lose_late_hosts();
  void lose_mute(const std::vector<Host*>& mute);
  void lose_silent_hosts();
  void wait_for_all_agents();
  void answered(Host& host);
  std::string remedy(const StarterProcess& starter) const;
  void end(Host& host);
  void lose(const std::vector<Host*>& hosts, const std::string& why);
  void leave_out(Host& host);
  void cancel();
  void send(Host& host, const AgentMessage& message);
  void send_order(Host& host, const Order& order);

  const Job& job_;
  const Inherited inherited_;
  const std::string folder_ = folder_of_ranks();  // if this throws, no starter must be running yet
  RankEvents events_;
  Signals starter_ended_{{SIGCHLD}};
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<StarterProcess>> starters_;
  std::optional<AgentListener> listener_;
  std::unique_ptr<RelaySource> input_;  // standard input of rank 0
  bool separate_errors_ = false, started_ = false, ending_ = false, ended_ = false, suspended_ = false;
  std::uint16_t port_ = 0;            // port of the rendezvous
  std::optional<std::size_t> asked_;  // the host whose agent was asked to find the master
  std::optional<Master> master_;      // set when that agent has found it
  Clock::time_point deadline_{}, last_bytes_{};
  std::chrono::milliseconds silence_limit_{};
};

}  // namespace anello::launch
