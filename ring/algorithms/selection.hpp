// Chooses the algorithm and the slab size of a collective. For allreduce, first looks for a matching row in the user's
// table (tuning_table.hpp), if the user gives one. Otherwise takes the first matching row of the table shipped with the
// library (selection_table.hpp). The choice depends only on facts that are equal on all ranks, so all ranks make the
// same choice. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ring/algorithms/plans.hpp"

namespace anello::algorithms {

inline constexpr std::int64_t kSuitableSlab = -1;  // a size that suits the medium and the algorithm

struct Facts {
  int world = 1;
  bool oversubscribed = false;     // a host has more ranks than cores
  bool bound = false;              // oversubscribed, and each rank has one core, which only its neighbours may share
  bool hosts_share_cores = false;  // several hosts, such as containers, share a machine that has fewer cores than ranks
  bool memory = false;             // every rank shares memory with every other rank
  int hosts = 1;
  bool uneven = false;                   // hosts have unequal numbers of ranks
  std::uint64_t bytes = 0;               // size of the larger of a rank's two tensors
  std::uint64_t largest_part_bytes = 0;  // set if ranks have unequal parts
  std::size_t elem_bytes = 1;
  Algorithm forced = Algorithm::automatic;
  std::int64_t slab_bytes = kSuitableSlab;  // the wanted size of a slab; 0: one slab
  bool rank_order = false;                  // reproducible mode: results must not depend on the algorithm
  bool narrow = false;                      // elements are sent as f16 or bf16
};

struct Choice {
  Algorithm algorithm = Algorithm::ring;  // automatic for a collective that has only one algorithm
  std::uint32_t slab_elems = 0;           // 0: one slab
  std::string_view reason;                // why this algorithm was chosen; in memory that is never freed
  std::string_view measured = {};         // where the bounds of the rule come from, for log lines
};

// A row of the user's table: for worlds of this layout, and buffers of at most max_bytes.
struct TableRow {
  int world = 2, hosts = 1;
  bool memory = false, oversubscribed = false;
  std::uint64_t max_bytes = 0;
  Algorithm algorithm = Algorithm::automatic;
  std::int64_t slab_bytes = kSuitableSlab;  // used unless Facts::slab_bytes is set
};
using Table = std::vector<TableRow>;

// Chooses for an allreduce: first the forced algorithm, then the user's table, then the shipped table. Throws
// Error{configuration} if the forced algorithm does not have the properties that the facts require.
Choice choose(const Facts& facts, std::span<const TableRow> table = {});

// True if a collective of this kind may work directly on the tensors, without an algorithm. The collective does so if
// all ranks can map all tensors (group/direct_collective.hpp). False if an algorithm is forced.
bool may_be_direct(Kind kind, const Facts& facts);

// For a collective that may be direct, but whose tensors cannot be mapped: returns the size of a slab in bytes if
// stages (group/staged_allreduce.hpp) are faster than an algorithm. Otherwise returns 0. Also returns 0 if an algorithm
// is forced or the table names one.
std::uint32_t stage_slab(Kind kind, const Facts& facts, std::span<const TableRow> table = {});

// Returns all algorithms of allreduce that are worth trying. Leaves out a two-level algorithm that does the same as
// another algorithm.
std::vector<Algorithm> algorithms_for(const Facts& facts);
bool passes_round_hosts(const Facts& facts);        // true if there are few hosts, and they share cores
bool hosts_have_several_ranks(const Facts& facts);  // true if there are several hosts, and one has several ranks

// Returns only the slab size, for an allreduce or a reduce_scatter by this algorithm. The size is close to
// facts.slab_bytes, makes all slabs equal, is large enough for each rank's messages, and fits into the field of a
// signature. 0: one slab.
std::uint32_t slab_elems(const Facts& facts, Algorithm algorithm = Algorithm::automatic);

// Like choose() and algorithms_for(), for any collective. Only for allreduce can an algorithm be forced, and only
// allreduce uses tables.
Choice choose(Kind kind, const Facts& facts, std::span<const TableRow> table = {});
std::vector<Algorithm> algorithms_for(Kind kind, const Facts& facts);
std::uint32_t slab_elems(Kind kind, const Facts& facts, Algorithm algorithm);

// Returns the fingerprint of the shipped table and of samples of choose(). Builds that choose differently have
// different fingerprints, unless they differ only between the samples.
std::uint64_t fingerprint_of_choices();

}  // namespace anello::algorithms
