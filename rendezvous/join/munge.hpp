// Munge is the service by which Slurm's hosts trust each other's user ids. One host encodes a text into a credential;
// another host decodes it and gets the id of the user who encoded it. The library (libmunge.so.2) is loaded when it is
// needed, so programs do not depend on it. Calls block until the local munged (Munge's daemon) answers; the library
// gives up after about 10 s. Each object is used by one thread.
#pragma once
#include <memory>
#include <string>

#include "rendezvous/join/job_environment.hpp"

namespace anello::rendezvous {

class Munge {
 public:
  Munge() = default;
  virtual ~Munge() = default;
  Munge(const Munge&) = delete;
  Munge& operator=(const Munge&) = delete;

  static constexpr std::size_t kMaxCredentialBytes = 4096;

  // Returns a credential that only processes of this user can decode. The munged of a host decodes a credential only
  // once, so each receiver needs a credential of its own. Throws Error{unauthorized} with munge's reason.
  virtual std::string encode(const std::string& secret_text) = 0;
  // Throws Error{unauthorized} if the credential is not valid, or if another user encoded it.
  virtual std::string decode(const std::string& credential) = 0;
};

// `socket`: munged's socket; empty: the library's default. Throws Error{unsupported} if the library is missing, or if
// munged does not answer.
std::shared_ptr<Munge> open_munge(const std::string& socket);
std::shared_ptr<Munge> open_slurms_munge();  // uses munge_socket() of this process's environment

// Returns the socket of the munged that Slurm uses: MUNGE_SOCKET, or, if that is not set, AuthInfo in Slurm's
// configuration; empty if neither is given.
std::string munge_socket(const Variables& variables);
// Returns the socket that AuthInfo names in the text of a slurm.conf.
std::string socket_of_auth_info(const std::string& slurm_conf);

}  // namespace anello::rendezvous
