// The table from which choose() (selection.hpp) takes the algorithm of each collective. A row names the ranks and sizes
// for which it is valid, the algorithm, the reason, and where its bounds were measured. Also compares a row with a
// call. Pure.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "ring/algorithms/selection.hpp"

namespace anello::algorithms {

inline constexpr std::uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

enum class Medium : std::uint8_t { any, tcp, memory };
// shared: a host has fewer cores than ranks. bound: shared, and each rank may use only one core (anello run --bind).
enum class Cores : std::uint8_t { any, shared, bound, own };
enum class Ranks : std::uint8_t { anywhere, on_one_host, one_on_each_host, several_on_a_host };
// sharing_cores: 3 to 16 hosts, such as containers, that are on one machine with fewer cores than ranks. alike: hosts
// that share no cores and have equal numbers of ranks.
enum class HostsAre : std::uint8_t { any, sharing_cores, on_own_cores, alike };
// The number that a row's `max` limits. buffer: the bytes of the buffer. part: the bytes of the largest part of any
// rank, or of a rank's share if there are no parts. of_host: the bytes of one host's share. further_slabs: the number
// of slabs after the first.
enum class Measure : std::uint8_t { buffer, part, of_host, further_slabs };
// For collectives other than allreduce: whether results are added in rank order, and whether they are also in rank
// order if elements are sent in 16 bits. For allreduce, algorithms.def has these facts.
enum class Order : std::uint8_t { any, of_ranks, of_ranks_if_wide };

struct Bounds {
  int min = 1, max = std::numeric_limits<int>::max();
  constexpr bool has(int value) const { return value >= min && value <= max; }
};

struct Rule {
  std::uint16_t kinds = 0;  // one bit for each kind of operation to which the rule applies
  Medium medium = Medium::any;
  Cores cores = Cores::any;
  Ranks ranks = Ranks::anywhere;
  HostsAre hosts_are = HostsAre::any;
  Bounds world{}, hosts{};
  bool power_of_two = false;  // the number of ranks must be a power of two
  Measure measure = Measure::buffer;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
  Order order = Order::any;
  Algorithm algorithm = Algorithm::ring;
  std::string_view reason;
  std::string_view measured;  // the machine or the simulation from which the bounds come
};

// The first rule that fits is taken. A rule for several ranks on a host names a two-level algorithm; if each host has
// one rank, choose() uses only its algorithm between hosts.
std::span<const Rule> rules();

bool is_for(const Rule& rule, Kind kind);
bool fits(const Rule& rule, Kind kind, const Facts& facts);
// True if the rule's algorithm can carry out a call of this kind of any size.
bool may_use(const Rule& rule, Kind kind, const Facts& facts);

// True if an allreduce by this algorithm adds in the order that `facts` require: in reproducible mode, in rank order.
bool keeps_order(Algorithm algorithm, const Facts& facts);

std::uint64_t fingerprint_of_rules();

}  // namespace anello::algorithms
