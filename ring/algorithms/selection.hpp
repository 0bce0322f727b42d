// Which algorithm a collective takes, and in what slabs: of an allreduce the first row that matches in the user's table
// (tuning_table.hpp), if there is one, or else in the table shipped with the library; of the others by
// collective_selection.cpp. It depends only on facts that are equal on all ranks, so all ranks choose the same. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ring/algorithms/plans.hpp"

namespace anello::algorithms {

inline constexpr std::int64_t kSuitableSlab = -1;  // for what the bytes go through

struct Facts {
  int world = 1;
  bool oversubscribed = false;     // on some host there are more ranks than cores
  bool hosts_share_cores = false;  // each host is one of several, as containers are, of a machine with too few cores
  bool memory = false;             // every rank shares memory with every other
  int hosts = 1;
  bool uneven = false;                   // hosts have unequal numbers of ranks
  std::uint64_t bytes = 0;               // of the larger of a rank's two tensors
  std::uint64_t largest_part_bytes = 0;  // where ranks have unequal parts
  std::size_t elem_bytes = 1;
  Algorithm forced = Algorithm::automatic;
  std::int64_t slab_bytes = kSuitableSlab;  // wanted; 0: everything at once
  bool rank_order = false;                  // reproducible mode: results must not depend on the algorithm
  bool narrow = false;                      // elements travel as f16 or bf16
};

struct Choice {
  Algorithm algorithm = Algorithm::ring;  // automatic for a collective that has one algorithm
  std::uint32_t slab_elems = 0;           // 0: all at once
  std::string_view reason;                // for people, in memory that never goes away
};

// A row of the user's: for worlds of this layout, and buffers up to max_bytes.
struct TableRow {
  int world = 2, hosts = 1;
  bool memory = false, oversubscribed = false;
  std::uint64_t max_bytes = 0;
  Algorithm algorithm = Algorithm::automatic;
  std::int64_t slab_bytes = kSuitableSlab;  // unless the facts say what is wanted
};
using Table = std::vector<TableRow>;

// What is forced comes first, then the user's table, then the shipped one. Throws Error{configuration} if the forced
// algorithm cannot do what is asked.
Choice choose(const Facts& facts, std::span<const TableRow> table = {});

// Whether a collective of this kind is done where the tensors lie, without its algorithm, if all ranks can map all of
// them (group/direct_collective.hpp). Not if an algorithm is forced.
bool may_be_direct(Kind kind, const Facts& facts);

// All algorithms of allreduce that are worth trying: those of two levels only where they differ from the others.
std::vector<Algorithm> algorithms_for(const Facts& facts);
bool passes_round_hosts(const Facts& facts);        // there are few hosts, and they share cores
bool hosts_have_several_ranks(const Facts& facts);  // on some of several hosts there are more ranks than one

// The slab alone, of an allreduce or a reduce_scatter by this algorithm: near facts.slab_bytes, so that slabs are
// equal, no less than a worthwhile message for each rank, and no more than a signature can say. 0: all at once.
std::uint32_t slab_elems(const Facts& facts, Algorithm algorithm = Algorithm::automatic);

// The same for every collective. Only allreduce can be forced, and only it reads tables.
Choice choose(Kind kind, const Facts& facts, std::span<const TableRow> table = {});
std::vector<Algorithm> algorithms_for(Kind kind, const Facts& facts);
std::uint32_t slab_elems(Kind kind, const Facts& facts, Algorithm algorithm);

// A number for the shipped tables, and for samples of what choose() says: other builds that choose otherwise have
// another, unless they do so between the samples alone.
std::uint64_t fingerprint_of_choices();
std::uint64_t fingerprint_of_collective_choices(std::uint64_t before);

}  // namespace anello::algorithms
