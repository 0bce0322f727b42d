// The verbs: arguments are checked here, and become operations.
#include <anello/world.hpp>
#include <array>
#include <cstdint>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/plan/table.hpp"
#include "ring/world_impl.hpp"

namespace anello {
namespace {

constexpr std::chrono::milliseconds kGoodbyeLimit{500};

[[noreturn]] void refuse(std::string_view verb, const std::string& why) {
  throw Error(Code::invalid_argument, text(verb, ": ", why));
}

void check_size(std::string_view verb, std::string_view which, std::uint64_t count, DType dtype) {
  if (count > PTRDIFF_MAX / size_bytes(dtype))
    refuse(verb, text("the ", which, " has ", count, " elements, more than any memory holds"));
}

void check_tensor(std::string_view verb, std::string_view which, const ConstTensor& tensor) {
  if (tensor.count > 0 && !tensor.data)
    refuse(verb, text("the ", which, " is a null pointer with ", tensor.count, " elements"));
  if (name(tensor.dtype) == "?")
    refuse(verb, text("the ", which, "'s dtype ", int(tensor.dtype), " is not one of anello::DType"));
  check_size(verb, which, tensor.count, tensor.dtype);
}

void check_pair(std::string_view verb, const ConstTensor& input, const Tensor& output) {
  check_tensor(verb, "input", input);
  check_tensor(verb, "output", output);
  if (input.dtype != output.dtype)
    refuse(verb, text("the input is ", name(input.dtype), " but the output is ", name(output.dtype)));
}

// Both must be the same memory (output's element 0 at `offset` elements of the input, or the other way round) or apart.
void check_overlap(std::string_view verb, const ConstTensor& input, const Tensor& output, const void* in_place_input,
                   const void* in_place_output) {
  if (in_place_input == in_place_output) return;
  const auto a = reinterpret_cast<std::uintptr_t>(input.data), b = reinterpret_cast<std::uintptr_t>(output.data);
  if (a < b + output.bytes() && b < a + input.bytes())
    refuse(verb, "input and output overlap without being in place; use the same memory or memory apart");
}

// Without computing the product, which may be too large.
void check_multiple(std::string_view verb, std::string_view larger, std::uint64_t all, std::string_view smaller,
                    std::uint64_t count, int times) {
  if (all % std::uint64_t(times) != 0 || all / std::uint64_t(times) != count)
    refuse(verb, text("the ", larger, " has ", all, " elements, not ", times, " times the ", smaller, "'s ", count));
}

const std::byte* at(const void* data, std::size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

Buffer buffer(const ConstTensor& tensor) {
  return {static_cast<std::byte*>(const_cast<void*>(tensor.data)), tensor.count};  // an input is never written
}

void check_root(std::string_view verb, int root, int size) {
  if (root < 0 || root >= size) refuse(verb, text("root ", root, " is not a rank of this world of ", size));
}

void check_op(std::string_view verb, Op op, DType dtype) {
  if (name(op) == "?") refuse(verb, text("reduction ", int(op), " is not one of anello::Op"));
  if (can_reduce(dtype, op)) return;
  const bool boolean = dtype == DType::boolean;
  refuse(verb, text("there is no ", name(op), " of ", name(dtype),
                    boolean ? "; take sum for any, product for all" : "; the bitwise reductions are for integers"));
}

void check_options(std::string_view verb, const ReduceOptions& options, DType dtype) {
  if (options.slab_bytes < kSuitableSlab)
    refuse(verb, text("slab_bytes ", options.slab_bytes, " is less than -1, which means as set"));
  if (options.wire && !can_travel_as(dtype, *options.wire))
    refuse(verb, text(name(dtype), " cannot travel as ", name(*options.wire), "; f32 and f64 can as f16 and bf16"));
}

}  // namespace

World::World(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

int World::rank() const {
  return impl_->identity().rank;
}
int World::size() const {
  return impl_->identity().size;
}
int World::local_rank() const {
  return impl_->identity().local_rank;
}
int World::local_size() const {
  return impl_->identity().local_size;
}
int World::node_rank() const {
  return impl_->identity().node_rank;
}
int World::node_count() const {
  return impl_->identity().node_count;
}
const std::string& World::host(int rank) const {
  return impl_->host(rank);
}
std::string World::layout() const {
  return anello::layout(impl_->facts());
}

void World::allreduce(Tensor inout, Op op, const ReduceOptions& options) {
  allreduce(inout, inout, op, options);
}

void World::allreduce(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  constexpr std::string_view kVerb = "allreduce";
  check_pair(kVerb, input, output);
  check_op(kVerb, op, input.dtype);
  if (input.count != output.count)
    refuse(kVerb, text("the input has ", input.count, " elements but the output ", output.count));
  check_overlap(kVerb, input, output, input.data, output.data);
  check_options(kVerb, options, input.dtype);
  impl_->run({.kind = Kind::allreduce,
              .op = op,
              .dtype = input.dtype,
              .count = input.count,
              .input = buffer(input),
              .output = buffer(output),
              .name = options.name,
              .algorithm = options.algorithm,
              .slab_bytes = options.slab_bytes,
              .wire = options.wire});
}

void World::reduce(Tensor inout, int root, Op op, const ReduceOptions& options) {
  reduce(inout, inout, root, op, options);
}

void World::reduce(ConstTensor input, Tensor output, int root, Op op, const ReduceOptions& options) {
  constexpr std::string_view kVerb = "reduce";
  check_root(kVerb, root, size());
  if (rank() != root) output = Tensor(nullptr, 0, input.dtype);
  check_pair(kVerb, input, output);
  check_op(kVerb, op, input.dtype);
  if (rank() == root && input.count != output.count)
    refuse(kVerb, text("the input has ", input.count, " elements but the output ", output.count));
  check_overlap(kVerb, input, output, input.data, output.data);
  check_options(kVerb, options, input.dtype);
  if (!options.algorithm.empty()) refuse(kVerb, "there is no algorithm to force, only a slab");
  impl_->run({.kind = Kind::reduce,
              .op = op,
              .dtype = input.dtype,
              .count = input.count,
              .root = root,
              .input = buffer(input),
              .output = buffer(output),
              .name = options.name,
              .slab_bytes = options.slab_bytes,
              .wire = options.wire});
}

void World::broadcast(Tensor tensor, int root, const Options& options) {
  broadcast({&tensor, 1}, root, options);
}

void World::broadcast(std::span<const Tensor> tensors, int root, const Options& options) {
  constexpr std::string_view kVerb = "broadcast";
  check_root(kVerb, root, size());
  std::vector<Buffer::Piece> pieces;
  std::uint64_t count = 0, fingerprint = 0;
  for (const Tensor& tensor : tensors) {
    check_tensor(kVerb, "tensor", tensor);
    if (tensor.dtype != tensors[0].dtype)
      refuse(kVerb, text("the list has both ", name(tensors[0].dtype), " and ", name(tensor.dtype),
                         "; send one list for each"));
    fingerprint = (fingerprint ^ tensor.count) * 0x9e3779b97f4a7c15;
    check_size(kVerb, "list", count += tensor.count, tensor.dtype);
    if (tensor.count > 0) pieces.push_back({count, static_cast<std::byte*>(tensor.data), tensor.count});
  }
  const Buffer all(pieces);
  impl_->run({.kind = Kind::broadcast,
              .dtype = tensors.empty() ? DType::u8 : tensors[0].dtype,
              .count = count,
              .root = root,
              .fingerprint = fingerprint,
              .input = all,
              .output = all,
              .name = options.name});
}

void World::all_gather(ConstTensor input, Tensor output, const Options& options) {
  constexpr std::string_view kVerb = "all_gather";
  check_pair(kVerb, input, output);
  check_multiple(kVerb, "output", output.count, "input", input.count, size());
  check_overlap(kVerb, input, output, input.data, at(output.data, input.bytes() * std::size_t(rank())));
  impl_->run({.kind = Kind::all_gather,
              .dtype = input.dtype,
              .count = input.count,
              .input = buffer(input),
              .output = buffer(output),
              .name = options.name});
}

void World::gather(ConstTensor input, Tensor output, int root, const Options& options) {
  constexpr std::string_view kVerb = "gather";
  check_root(kVerb, root, size());
  if (rank() != root) output = Tensor(nullptr, 0, input.dtype);
  check_pair(kVerb, input, output);
  if (rank() == root) {
    check_multiple(kVerb, "output", output.count, "input", input.count, size());
    check_overlap(kVerb, input, output, input.data, at(output.data, input.bytes() * std::size_t(rank())));
  }
  impl_->run({.kind = Kind::gather,
              .dtype = input.dtype,
              .count = input.count,
              .root = root,
              .input = buffer(input),
              .output = buffer(output),
              .name = options.name});
}

void World::scatter(ConstTensor input, Tensor output, int root, const Options& options) {
  constexpr std::string_view kVerb = "scatter";
  check_root(kVerb, root, size());
  if (rank() != root) input = ConstTensor(nullptr, 0, output.dtype);
  check_pair(kVerb, input, output);
  if (rank() == root) {
    check_multiple(kVerb, "input", input.count, "output", output.count, size());
    check_overlap(kVerb, input, output, at(input.data, output.bytes() * std::size_t(rank())), output.data);
  }
  impl_->run({.kind = Kind::scatter,
              .dtype = output.dtype,
              .count = output.count,
              .root = root,
              .input = buffer(input),
              .output = buffer(output),
              .name = options.name});
}

void World::reduce_scatter(ConstTensor input, Tensor output, Op op, const ReduceOptions& options) {
  constexpr std::string_view kVerb = "reduce_scatter";
  check_pair(kVerb, input, output);
  check_op(kVerb, op, input.dtype);
  check_multiple(kVerb, "input", input.count, "output", output.count, size());
  check_overlap(kVerb, input, output, at(input.data, output.bytes() * std::size_t(rank())), output.data);
  check_options(kVerb, options, input.dtype);
  if (!options.algorithm.empty()) refuse(kVerb, "it always goes round the ring, there is no algorithm to force");
  impl_->run({.kind = Kind::reduce_scatter,
              .op = op,
              .dtype = input.dtype,
              .count = output.count,
              .input = buffer(input),
              .output = buffer(output),
              .name = options.name,
              .slab_bytes = options.slab_bytes,
              .wire = options.wire});
}

void World::barrier(const Options& options) {
  impl_->run({.kind = Kind::barrier, .name = options.name});
}

double World::average(double value) {
  allreduce(std::span(&value, 1), Op::average, {.name = "average"});
  return value;
}

void World::abort(std::string_view reason) {
  impl_->abort(reason);
}
void World::finish() {
  impl_->finish();
}

World::Impl::~Impl() {
  leave();
}

const std::string& World::Impl::host(int rank) const {
  if (rank < 0 || std::size_t(rank) >= hosts_.size())
    refuse("host", text("rank ", rank, " is not in this world of ", hosts_.size()));
  return hosts_[std::size_t(rank)];
}

void World::Impl::run(const Operation& operation) {
  if (finished_) refuse("world", "used after finish()");
  communicator_->run(operation);
}

void World::Impl::abort(std::string_view reason) {
  const int rank = identity_.rank;
  const std::string why = text("rank ", rank, " on ", identity_.host, " ended the world: ", reason);
  if (control_)
    control_->abort({Code::aborted, rank, why});
  else
    communicator_->end({Code::aborted, why, rank});
}

void World::Impl::finish() {
  run({.kind = Kind::barrier, .name = "finish"});
  finished_ = true;
  leave();
}

void World::Impl::leave() {
  if (!background_ || std::exchange(left_, true)) return;
  if (control_ && communicator_) control_->leave(communicator_->completed(), kGoodbyeLimit);
  background_->stop();
}

}  // namespace anello
