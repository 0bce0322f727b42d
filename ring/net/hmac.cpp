#include "ring/net/hmac.hpp"

#include <anello/error.hpp>

#ifdef ANELLO_HAS_OPENSSL
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>
#else
#include "ring/base/check.hpp"
#endif

namespace anello::net {

#ifdef ANELLO_HAS_OPENSSL
namespace {

// The numbers of calls of OpenSSL and of fork() in progress, and whether further calls are forbidden. All are atomics,
// because an atomic has no destructor that runs at exit.
std::atomic<int> calls_in_progress{0};
std::atomic<int> forks_in_progress{0};
std::atomic<bool> openssl_ended{false};

// A call takes microseconds, so the time limit only matters for a thread that is never scheduled again.
void await_end_of_calls() {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLimit{1000};
  const auto deadline = steady_clock::now() + kLimit;
  while (calls_in_progress > 0 && steady_clock::now() < deadline) std::this_thread::yield();
}

// A call holds locks of OpenSSL. A child that fork() made during a call would have these locks, but not the thread that
// releases them, and would wait for them for ever when it exits.
void before_fork() {
  forks_in_progress++;
  await_end_of_calls();
}
void after_fork_in_parent() {
  forks_in_progress--;
  forks_in_progress.notify_all();
}
void after_fork_in_child() {
  calls_in_progress = forks_in_progress = 0;
}

// OpenSSL calls this before it frees anything at exit.
void end_calls() {
  openssl_ended = true;
  await_end_of_calls();
}

bool watch_exit_and_fork() {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  return OPENSSL_atexit(end_calls) == 1;
}

class CallOfOpenssl {
 public:
  CallOfOpenssl() {
    static const bool watched = watch_exit_and_fork();
    calls_in_progress++;
    while (const int forks = forks_in_progress) {
      calls_in_progress--;
      forks_in_progress.wait(forks);
      calls_in_progress++;
    }
    if (watched && !openssl_ended) return;
    calls_in_progress--;
    throw error();
  }
  ~CallOfOpenssl() { calls_in_progress--; }
  CallOfOpenssl(const CallOfOpenssl&) = delete;
  CallOfOpenssl& operator=(const CallOfOpenssl&) = delete;

  // OpenSSL also refuses calls in the moment before it calls end_calls().
  static Error error() {
    return {ErrorCode::network,
            "OpenSSL computed no HMAC-SHA256, so the secret cannot be proved: the process is exiting, or a policy of "
            "this system forbids the algorithm"};
  }
};

}  // namespace

void require_authentication(std::string_view) {}

std::string hmac_sha256(std::string_view secret, std::string_view message) {
  std::string proof(kProofBytes, '\0');
  unsigned int bytes = 0;
  const auto* from = reinterpret_cast<const unsigned char*>(message.data());
  auto* to = reinterpret_cast<unsigned char*>(proof.data());
  const CallOfOpenssl call;
  const void* done = HMAC(EVP_sha256(), secret.data(), int(secret.size()), from, message.size(), to, &bytes);
  if (!done || bytes != kProofBytes) throw CallOfOpenssl::error();
  return proof;
}
#else
void require_authentication(std::string_view secret) {
  if (!secret.empty())
    throw Error(ErrorCode::unsupported,
                "the job has a secret, and this build has no authentication; install OpenSSL's headers (Debian: "
                "apt-get install libssl-dev) and build again");
}

std::string hmac_sha256(std::string_view, std::string_view) {
  ANELLO_CHECK(!"require_authentication() comes first");
  return {};
}
#endif

}  // namespace anello::net
