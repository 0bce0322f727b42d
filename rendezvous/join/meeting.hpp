// How the ranks of a job find each other if `anello run` did not start them and there is no rendezvous server. One of
// the ranks runs the server in its own process while the world starts. The other ranks get its address and the job's
// secret by the means that the launcher offers:
//
//   a process manager (PMI, PMIx)  rank 0 puts address and secret into the manager's key-value space
//   a host that all ranks share    rank 0 sends them to each process of the same user, over a local socket
//   a Slurm step                   the first task of its first host sends them to each connection in a munge credential
//   a Slurm step without munge,    the server listens on a port that follows from the job's name; the secret is
//   MASTER_ADDR and MASTER_PORT    ANELLO_SECRET_FILE or that of the user's home
//
// There is always a secret, or an error. (A build without OpenSSL has no secret: it works on one host only, with a
// warning.) Owned and used by the thread that calls init().
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/client/client.hpp"
#include "rendezvous/join/credential_exchange.hpp"
#include "rendezvous/join/join_plan.hpp"
#include "rendezvous/join/key_value_space.hpp"
#include "rendezvous/join/local_exchange.hpp"
#include "rendezvous/join/munge.hpp"
#include "rendezvous/join/process_manager.hpp"
#include "rendezvous/server/server.hpp"
#include "ring/net/sockets.hpp"

namespace anello::rendezvous {

// Parts that tests replace.
struct MeetingHooks {
  std::function<std::unique_ptr<KeyValueSpace>(Way, std::chrono::milliseconds)> open_space = open_process_manager;
  std::function<std::shared_ptr<Munge>()> munge = open_slurms_munge;
};

class Meeting {
 public:
  // Blocks until this rank has found the server's address, for at most start_timeout. If no way can be used, throws
  // Error{configuration} with the reasons. If a usable way fails, throws Error{network, unauthorized, timed_out}.
  explicit Meeting(const JoinPlan& plan, const MeetingHooks& hooks = {});
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  const Settings& settings() const { return settings_; }  // the settings with which RendezvousClient joins
  const std::string& secret() const { return secret_; }
  // For RendezvousClient.
  RendezvousClient::Server server() const { return {where_, !on_loopback_, listens_, server_rank_}; }
  bool runs_server() const { return server_ != nullptr; }

  // Call when this rank has left the rendezvous, in which it was a member of this generation. In the process that runs
  // the server, blocks until all ranks have left.
  void wait_for_others(std::uint32_t generation);
  // Call if this rank cannot start. In the process that runs the server, sends the other ranks the reason. Blocks until
  // all ranks, including late ones, have received the reason, but at most 3 s.
  void conclude(const Error& why);

 private:
  using Clock = std::chrono::steady_clock;

  bool meet(const Placement& way, const MeetingHooks& hooks);
  bool refuse(std::string_view what, std::string_view why);
  void name_job(const std::string& job);
  void meet_in(KeyValueSpace& space);
  void require_job_of_rank_0(const std::string& managers_name, const std::string& job);
  void meet_on_this_host(const Placement& way);
  void meet_by_munge(const Placement& way, std::shared_ptr<Munge> munge);
  void meet_at(const Placement& way);
  void start_server(const std::string& address, const std::vector<std::uint16_t>& ports, bool may_be_ours);
  void knock(const Invitation& other) const;
  bool listen_on_this_host(const std::string& place);
  void start_own_server();
  Invitation invitation() const;
  std::function<bool()> server_is_open() const;
  void accept(const std::optional<Invitation>& found, const std::string& tried);
  bool is_of_this_job(std::uint16_t port) const;

  const std::string given_job_;
  Settings settings_;
  std::string secret_, where_;
  bool on_loopback_ = false, listens_ = false;
  int server_rank_ = 0;  // the rank that runs the server; -1: unknown
  bool by_hand_ = false;
  const Clock::time_point deadline_;
  std::string refusals_;                        // why ways to meet could not be used
  std::optional<net::RaisedFilesLimit> files_;  // set while this process runs the server
  std::unique_ptr<RendezvousServer> server_;
  std::unique_ptr<CredentialListener> listener_;  // uses server_, as the next member does
  std::unique_ptr<LocalListener> local_listener_;
};

}  // namespace anello::rendezvous
