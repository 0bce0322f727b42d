// The socket of an elastic job, at which its launcher takes requests: status, resize and remove. Its name is computed
// from the user and the job's name; it is not in the file system, so it ends with its process. Only processes of the
// same user and root are answered.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/launch/base/descriptor.hpp"
#include "rendezvous/launch/base/poll_set.hpp"

namespace anello::launch {

// Owned by the launcher's loop.
class JobRequests {
 public:
  // `answer` returns the text for a request. A request is one line. If `answer` throws, the error is sent. Throws
  // Error{network}.
  JobRequests(const std::string& job, std::function<std::string(const std::string& request)> answer);
  void watch(PollSet& polls);

 private:
  struct Client {
    Descriptor socket;
    std::string reply = {};  // what is still to be sent
  };
  void accept();
  void receive(Client& client);
  static void send_some(Client& client);

  static constexpr std::size_t kMaxClients = 16;
  std::function<std::string(const std::string&)> answer_;
  Descriptor listener_;
  std::vector<Client> clients_;  // each sends one line, and receives one answer
};

// Returns the names of this user's elastic jobs on this host, in alphabetical order.
std::vector<std::string> running_jobs();

// Sends a request to a job on this host, and returns its answer. Blocks for at most 10 s. If the job refuses the
// request, throws Error{invalid_argument} with the job's own words. If there is no such job, or it does not answer,
// throws Error{network}.
std::string ask_job(const std::string& job, const std::string& request);

}  // namespace anello::launch
