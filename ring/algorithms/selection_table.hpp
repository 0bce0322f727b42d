// The table from which choose() takes the algorithm of each collective: which ranks, which sizes, which algorithm, why,
// and where each bound was measured. Data, and how a row is compared with a call. Pure.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "ring/algorithms/selection.hpp"

namespace anello::algorithms {

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

enum class Medium : std::uint8_t { any, tcp, memory };
enum class Cores : std::uint8_t { any, shared, own };
enum class Ranks : std::uint8_t { anywhere, on_one_host, one_on_each_host, several_on_a_host };
// Hosts that share cores: 3 to 16 of them, such as containers, on one machine with fewer cores than ranks. Hosts are
// alike if they share no cores and have equal numbers of ranks.
enum class HostsAre : std::uint8_t { any, sharing_cores, on_own_cores, alike };
// The number that a row's `max` limits: the bytes of the buffer; its share, or the largest part, of one rank; its share
// of one host; or the slabs besides the first.
enum class Measure : std::uint8_t { buffer, part, of_host, further_slabs };
// For collectives other than allreduce, whose algorithms say it themselves: whether results are added in rank order,
// also if elements are sent in 16 bits.
enum class Order : std::uint8_t { any, of_ranks, of_ranks_if_wide };

struct Bounds {
  int min = 1, max = std::numeric_limits<int>::max();
  constexpr bool has(int value) const { return value >= min && value <= max; }
};

struct Rule {
  std::uint16_t kinds = 0;  // bits, by kind
  Medium medium = Medium::any;
  Cores cores = Cores::any;
  Ranks ranks = Ranks::anywhere;
  HostsAre hosts_are = HostsAre::any;
  Bounds world{}, hosts{};
  bool power_of_two = false;  // the number of ranks is one
  Measure measure = Measure::buffer;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  Order order = Order::any;
  Algorithm algorithm = Algorithm::ring;
  std::string_view reason;
  std::string_view measured;  // the machine, or the simulation, from which the bounds come
};

// The first rule that fits is taken. A rule for several ranks on a host names the algorithm between hosts with its
// levels; choose() leaves the levels out where each host has one rank.
std::span<const Rule> rules();

bool is_for(const Rule& rule, Kind kind);
bool fits(const Rule& rule, Kind kind, const Facts& facts);
// Whether the rule's algorithm can carry out such a call, whatever its size.
bool may_use(const Rule& rule, Kind kind, const Facts& facts);

// Whether an allreduce by this algorithm gives what `facts` ask for: in reproducible mode, sums in rank order.
bool keeps_order(Algorithm algorithm, const Facts& facts);

std::uint64_t fingerprint_of_rules();

}  // namespace anello::algorithms
