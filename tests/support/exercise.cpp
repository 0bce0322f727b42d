#include "tests/support/exercise.hpp"

#include <algorithm>
#include <anello/memory.hpp>
#include <cstring>

#include "ring/base/element_types.hpp"
#include "ring/base/text.hpp"
#include "ring/run/elementwise.hpp"
#include "tests/support/uneven.hpp"

namespace anello {
namespace {

constexpr std::byte kGuard{0xa5};
constexpr std::uint64_t kPeriod = 7 * 7 * 5;  // of Part::contribution(), in elements

// Elements that are only stored are filled and compared as integers of their size.
template <class Use>
auto with_filled_type(DType dtype, Use use) {
  if (!is_only_stored(dtype)) return with_type(dtype, use);
  const std::size_t bytes = size_bytes(dtype);
  return with_type(bytes == 1 ? DType::u8 : bytes == 2 ? DType::u16 : bytes == 4 ? DType::u32 : DType::u64, use);
}

bool can_be_negative(DType dtype) {
  return with_filled_type(dtype, []<class T>() { return !std::is_unsigned_v<T>; });
}

template <class T>
T divided(int sum, int world) {
  if constexpr (std::is_integral_v<T>)
    return T(sum / world);
  else if constexpr (std::is_floating_point_v<T>)
    return T(sum) / T(world);
  else
    return T(float(sum) / float(world));
}

template <class T>
T number(int value) {
  if constexpr (std::is_arithmetic_v<T>)
    return T(value);
  else
    return T(float(value));
}

int combined(Op op, int a, int b) {
  switch (op) {
    case Op::sum:
    case Op::average:
      return a + b;
    case Op::min:
      return std::min(a, b);
    case Op::max:
      return std::max(a, b);
    case Op::product:
      return a * b;
    case Op::bit_and:
      return a & b;
    case Op::bit_or:
      return a | b;
    case Op::bit_xor:
      return a ^ b;
  }
  return 0;
}

class Shareable final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override { return anello::allocate(bytes); }
  void do_deallocate(void* memory, std::size_t, std::size_t) override { anello::deallocate(memory); }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// Fills memory with values whose period is kPeriod.
template <class T, class Value>
void fill_periodically(T* memory, std::uint64_t elems, Value value) {
  std::uint64_t done = std::min(kPeriod, elems);
  for (std::uint64_t i = 0; i < done; i++) memory[i] = value(i);
  while (done < elems) {
    const std::uint64_t more = std::min(done, elems - done);
    std::memcpy(memory + done, memory, more * sizeof(T));
    done += more;
  }
}

std::pmr::memory_resource* resource_for(const Exercise& exercise) {
  static Shareable shareable;
  return exercise.shareable ? &shareable : std::pmr::get_default_resource();
}

}  // namespace

Memory::~Memory() {
  if (!bytes_.empty()) resource_->deallocate(bytes_.data(), bytes_.size());
}

void Memory::allocate(std::size_t bytes) {
  bytes_ = {static_cast<std::byte*>(resource_->allocate(bytes)), bytes};
}

void Memory::fill(std::size_t bytes, std::byte value) {
  allocate(bytes);
  std::memset(bytes_.data(), int(value), bytes);
}

void Memory::copy(const Memory& from) {
  if (from.bytes_.empty()) return;
  allocate(from.bytes_.size());
  std::memcpy(bytes_.data(), from.bytes_.data(), bytes_.size());
}

bool Memory::operator==(const Memory& other) const {
  return bytes_.size() == other.bytes_.size() &&
         (bytes_.empty() || std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0);
}

std::string describe(const Exercise& e) {
  Signature signature;
  signature.kind = e.kind;
  signature.op = e.op;
  signature.dtype = e.dtype;
  signature.wire = e.wire.value_or(kAsTheyAre);
  signature.count = e.count;
  signature.root = e.root;
  return text(e.world, " ranks, ", describe(signature), e.in_place ? ", in place" : "",
              e.shareable ? ", shareable" : "", e.uneven ? ", in unequal parts" : "",
              e.prescale != 1 || e.postscale != 1 ? ", scaled" : "", e.algorithm == Algorithm::automatic ? "" : ", by ",
              e.algorithm == Algorithm::automatic ? "" : name(e.algorithm));
}

std::vector<std::uint64_t> Exercise::counts(int rank) const {
  if (!uneven) return {};
  return uneven_counts(world, count, kind == Kind::alltoall ? rank : 0);
}

std::vector<std::uint64_t> Exercise::received(int rank) const {
  if (!uneven || kind != Kind::alltoall) return {};
  return uneven_received(world, count, rank);
}

Part::Part(const Exercise& exercise, int rank)
    : exercise_(exercise),
      rank_(rank),
      parts_(exercise.world, exercise.count,
             exercise.kind == Kind::alltoall ? exercise.received(rank) : exercise.counts(rank)),
      first_(resource_for(exercise)),
      second_(resource_for(exercise)) {
  const plan::Range own = parts_.of(rank);
  const bool root = rank == exercise.root;
  const bool gathers = exercise.kind == Kind::allgather || exercise.kind == Kind::gather;
  const bool scatters = exercise.kind == Kind::reduce_scatter || exercise.kind == Kind::scatter;
  const bool whole =
      exercise.kind == Kind::allreduce || exercise.kind == Kind::reduce || exercise.kind == Kind::broadcast;
  input_elems_ = whole ? exercise.count : scatters ? parts_.whole() : own.count;
  output_elems_ = whole ? exercise.count : gathers ? parts_.whole() : own.count;
  if (exercise.kind == Kind::alltoall) {
    input_elems_ = plan::Parts(exercise.world, exercise.count, exercise.counts(rank)).whole();
    output_elems_ = parts_.whole();
  }
  if (exercise.kind == Kind::scatter && !root) input_elems_ = 0;
  if ((exercise.kind == Kind::reduce || exercise.kind == Kind::gather) && !root) output_elems_ = 0;
  if (exercise.in_place) {
    const std::size_t offset = std::size_t(own.begin) * size_bytes(exercise.dtype);
    input_ = output_ = claim(first_, std::max(input_elems_, output_elems_));
    if (gathers && output_elems_ > 0) input_ += offset;
    if (scatters && input_elems_ > 0) output_ += offset;
  } else {
    input_ = claim(first_, input_elems_);
    output_ = claim(second_, output_elems_);
  }
  fill();
}

Part::~Part() = default;

std::byte* Part::claim(Memory& memory, std::uint64_t elems) const {
  memory.fill(elems * size_bytes(exercise_.dtype) + 2 * kGuardBytes, kGuard);
  return memory.bytes().data() + kGuardBytes;
}

void Part::fill() {
  const bool has_input = exercise_.kind != Kind::broadcast || exercise_.root == rank_;
  with_filled_type(exercise_.dtype, [&]<class T>() {
    fill_periodically(reinterpret_cast<T*>(output_), output_elems_, [](std::uint64_t) { return number<T>(99); });
    if (has_input)
      fill_periodically(reinterpret_cast<T*>(input_), input_elems_,
                        [&](std::uint64_t i) { return number<T>(contribution(rank_, i)); });
  });
  original_.copy(first_);
}

int Part::contribution(int rank, std::uint64_t element) const {
  const auto mixed = int((std::uint64_t(rank) * 3 + element * 5 + element / 7) % 7);
  const bool all_like = exercise_.op == Op::product || exercise_.op == Op::min || exercise_.op == Op::bit_and;
  if (exercise_.dtype == DType::boolean) return all_like ? mixed != 0 : mixed == 0;
  if (exercise_.op == Op::product) return 1 + ((std::uint64_t(rank) + element) % 5 == 0);
  return mixed - (can_be_negative(exercise_.dtype) ? 3 : 0);
}

// The reduction over all ranks; for an average, before the division.
int Part::reduced(std::uint64_t element) const {
  int result = contribution(0, element);
  for (int rank = 1; rank < exercise_.world; rank++)
    result = combined(exercise_.op, result, contribution(rank, element));
  return result;
}

std::vector<Part::Block> Part::blocks() const {
  if (output_elems_ == 0) return {};
  const std::uint64_t own = parts_.of(rank_).begin;
  if (reduces()) return {{0, output_elems_, rank_, exercise_.kind == Kind::reduce_scatter ? own : 0}};
  if (exercise_.kind == Kind::broadcast) return {{0, output_elems_, exercise_.root, 0}};
  if (exercise_.kind == Kind::scatter) return {{0, output_elems_, exercise_.root, own}};
  std::vector<Block> all;
  for (int owner = 0; owner < exercise_.world; owner++) {
    const auto [begin, count] = parts_.of(owner);
    const plan::Parts sent(exercise_.world, exercise_.count, exercise_.counts(owner));
    all.push_back({begin, count, owner, exercise_.kind == Kind::alltoall ? sent.of(rank_).begin : 0});
  }
  return all;
}

bool Part::reduces() const {
  return facts_of(exercise_.kind).reduces;
}

template <class T>
T Part::expected(const Block& block, std::uint64_t at) const {
  if (!reduces()) return number<T>(contribution(block.owner, block.first + at));
  const int all = reduced(block.first + at);
  const double factor = exercise_.prescale * exercise_.postscale;
  if (exercise_.op == Op::average) return divided<T>(int(all * factor), exercise_.world);
  return number<T>(factor == 1 ? all : int(all * factor));
}

// Rounds an average to the type in which the algorithm sends it.
template <class T>
T Part::as_sent(T value) const {
  if constexpr (std::is_floating_point_v<T>) {
    if (exercise_.wire == DType::f16) return T(float(f16(float(value))));
    if (exercise_.wire == DType::bf16) return T(float(bf16(float(value))));
  }
  return value;
}

template <class T>
bool Part::is_right(T value, T exact) const {
  return value == exact || (exercise_.op == Op::average && value == as_sent(exact));
}

// Returns the number of right elements before the first wrong element. Elements after the first period are compared
// with the part that was already found right: first all bytes at once, and then each number, because equal numbers may
// differ in their bits.
template <class T>
std::uint64_t Part::right_elems(const Block& block) const {
  const T* const result = reinterpret_cast<const T*>(output_) + block.begin;
  const std::uint64_t period = std::min(kPeriod, block.count);
  std::uint64_t at = 0;
  while (at < period && is_right(result[at], expected<T>(block, at))) at++;
  if (at < period) return at;
  if (std::memcmp(result, result + period, (block.count - period) * sizeof(T)) == 0) return block.count;
  while (at < block.count && result[at] == result[at - period]) at++;
  return at;
}

// Returns the index of the first wrong element of the result, or the number of elements if all are right.
std::uint64_t Part::first_wrong() const {
  return with_filled_type(exercise_.dtype, [&]<class T>() {
    for (const Block& block : blocks())
      if (const std::uint64_t right = right_elems<T>(block); right < block.count) return block.begin + right;
    return output_elems_;
  });
}

bool Part::guards_hold(const Memory& memory) const {
  const auto intact = [](std::byte b) { return b == kGuard; };
  const std::span<const std::byte> bytes = memory.bytes();
  return bytes.empty() || (std::ranges::all_of(bytes.first(kGuardBytes), intact) &&
                           std::ranges::all_of(bytes.last(kGuardBytes), intact));
}

std::string Part::wrong() const {
  const std::string who = text("rank ", rank_, " of ", describe(exercise_));
  if (!guards_hold(first_) || !guards_hold(second_)) return who + ": memory outside the buffers was written";
  if ((!exercise_.in_place || output_elems_ == 0) && !(first_ == original_)) return who + ": the input was written";
  const std::uint64_t at = first_wrong();
  return at == output_elems_ ? "" : text(who, ": element ", at, " of the result is wrong");
}

}  // namespace anello
