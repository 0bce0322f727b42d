// Connections of every hostile kind to a job: to its rendezvous and to its ranks.
// They come from a thread of its own, evenly over time.
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
  oversized,       // a length beyond what is ever read
  prefix,          // a valid beginning, then silence
  replayed,        // what a rank that knows the secret said to somebody else
  wrong_secret,    //
  wrong_job,       //
  old_generation,  // a rank of an earlier world, with the right secret
  half_open,       // silence from the beginning
};
inline constexpr std::size_t kHostiles = std::size_t(Hostile::half_open) + 1;
std::string_view name(Hostile kind);

class Siege {
 public:
  struct Plan {
    net::Credentials credentials;      // those of the job
    std::vector<std::uint16_t> doors;  // ports of loopback, in turn
    long of_each_kind = 0;
    long a_second = 0;  // of all kinds together
  };
  explicit Siege(const Plan& plan);
  ~Siege();  // gives up
  Siege(const Siege&) = delete;
  Siege& operator=(const Siege&) = delete;

  // Until all have come and gone. False: not within the limit.
  bool wait(std::chrono::milliseconds limit);
  // Connections that were made, by kind. A port where no process listens yet is tried again.
  std::array<long, kHostiles> made() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace anello::faults
