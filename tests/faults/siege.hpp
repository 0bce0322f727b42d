// Hostile connections of every kind to a job: to its rendezvous and to its ranks. One thread makes them, evenly over
// time.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ring/net/handshake.hpp"

namespace anello::faults {

enum class Hostile {
  noise,           // random bytes
  oversized,       // a length above every limit
  prefix,          // a valid beginning, then silence
  replayed,        // messages that a rank with the secret has sent to another listener
  wrong_secret,    //
  wrong_job,       //
  old_generation,  // a rank of an earlier world, with the right secret
  half_open,       // silent from the beginning
};
inline constexpr std::size_t kHostiles = std::size_t(Hostile::half_open) + 1;
std::string_view name(Hostile kind);

class Siege {
 public:
  struct Plan {
    net::Credentials credentials;      // the job's
    std::vector<std::uint16_t> doors;  // ports of loopback, in turn
    long of_each_kind = 0;
    long a_second = 0;  // connections of all kinds together
  };
  explicit Siege(const Plan& plan);
  ~Siege();  // abandons the connections that are left
  Siege(const Siege&) = delete;
  Siege& operator=(const Siege&) = delete;

  // Waits until all connections have been made and have ended. False after the limit.
  bool wait(std::chrono::milliseconds limit);
  // The connections that were made, by kind. A port where no process listens yet is tried again.
  std::array<long, kHostiles> made() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello::faults
