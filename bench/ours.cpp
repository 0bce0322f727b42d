#include "bench/ours.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <anello/memory.hpp>
#include <anello/version.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "ring/base/text.hpp"

namespace anello::bench {

int in_world(const Settings& settings, const std::function<int(World&)>& run) {
  World world = init(settings);
  try {
    const int code = run(world);
    world.finish();
    return code;
  } catch (const std::exception& error) {
    world.abort(error.what());  // all ranks then report this error
    throw;
  }
}

nlohmann::ordered_json Ours::facts() const {
  std::set<std::string> hosts;
  for (int rank = 0; rank < world_.size(); rank++) hosts.insert(world_.host(rank));
  return {{"library", "anello"},
          {"version", version()},
          {"hosts", hosts},
          {"transport", settings_.transport},
          {"algorithm", settings_.algorithm},
          {"slab_bytes", settings_.slab_bytes},
          {"congestion", settings_.congestion},
          {"allocate", options_.shareable},
          {"calls", options_.async ? "asynchronous" : "blocking"},
          {"list_bytes", options_.list_bytes},
          {"factors", options_.factors},
          {"wire", options_.wire ? name(*options_.wire) : "as is"}};
}

Memory Ours::allocate(std::size_t bytes) {
  if (!options_.shareable) return pages(bytes);
  refuse_if_short(bytes);
  return {static_cast<std::byte*>(anello::allocate(bytes)), anello::deallocate};
}

Library::Call Ours::allreduce(ConstTensor input, Tensor output, Op op) {
  return collective(Kind::allreduce, input, output, op);
}

ReduceOptions Ours::reduce_options() const {
  ReduceOptions options{.wire = options_.wire};
  if (options_.factors) options.prescale = 2, options.postscale = 0.5;
  return options;
}

// Refuses a flag that would have no effect on this operation, or would change its results.
void Ours::require_use(Kind kind, DType dtype, Op op) const {
  if (options_.list_bytes > 0 && kind != Kind::broadcast && kind != Kind::allreduce)
    throw Error(ErrorCode::unsupported, "--list is for allreduce and broadcast");
  if (options_.list_bytes > 0 && options_.on_gpu) throw Error(ErrorCode::unsupported, "--list is for host tensors");
  if (options_.factors && (!facts_of(kind).reduces || !is_float(dtype) || op == Op::product))
    throw Error(ErrorCode::unsupported, "--factors is for reductions of floats, and not for products");
}

Library::Call Ours::of_list(Kind kind, Tensor whole, Op op) {
  const std::size_t each = std::max<std::size_t>(options_.list_bytes / size_bytes(whole.dtype), 1);
  std::vector<Tensor> list;
  for (std::size_t at = 0; at < whole.count; at += each)
    list.emplace_back(static_cast<std::byte*>(whole.data) + at * size_bytes(whole.dtype),
                      std::min(each, whole.count - at), whole.dtype);
  const ReduceOptions options = reduce_options();
  if (kind == Kind::broadcast && options_.async) return [=, this] { world_.broadcast_async(list, 0).wait(); };
  if (kind == Kind::broadcast) return [=, this] { world_.broadcast(list, 0); };
  if (options_.async) return [=, this] { world_.allreduce_async(list, op, options).wait(); };
  return [=, this] { world_.allreduce(list, op, options); };
}

Library::Call Ours::collective(Kind kind, ConstTensor input, Tensor output, Op op) {
  require_use(kind, input.dtype, op);
  if (options_.list_bytes > 0 && input.data == output.data) return of_list(kind, output, op);
  return options_.async ? asynchronous(kind, input, output, op) : blocking(kind, input, output, op);
}

Library::Call Ours::step(std::span<const Tensor> tensors, Calls calls) {
  if (calls == Calls::blocking) return Library::step(tensors, calls);
  if (!agenda_) agenda_ = agenda::Scheduler::make(world_);
  using Handles = std::vector<agenda::Scheduler::Handle>;
  const auto submit = [this, all = std::vector(tensors.begin(), tensors.end())] {
    Handles handles;
    for (const Tensor& each : all)
      handles.push_back(agenda_->submit({.verb = agenda::Verb::allreduce,
                                         .name = text("tensor ", handles.size()),
                                         .inputs = {{each.data, {each.count}, each.dtype}}}));
    return handles;
  };
  const auto check = [](const agenda::Scheduler::Handle& each) {
    if (const auto error = each->error()) throw *error;
  };
  if (calls == Calls::waiting)
    return [=, this] {
      for (const auto& each : submit()) agenda_->wait(*each), check(each);
    };
  return [=, this] {
    for (const auto& each : submit()) {
      while (!agenda_->done(*each)) std::this_thread::sleep_for(std::chrono::microseconds(100));
      check(each);
    }
  };
}

Library::Call Ours::blocking(Kind kind, ConstTensor input, Tensor output, Op op) {
  const ReduceOptions options = reduce_options();
  switch (kind) {
    case Kind::broadcast:
      return [=, this] { world_.broadcast(output, 0); };
    case Kind::reduce:
      return [=, this] { world_.reduce(input, output, 0, op, options); };
    case Kind::allgather:
      return [=, this] { world_.allgather(input, output); };
    case Kind::reduce_scatter:
      return [=, this] { world_.reduce_scatter(input, output, op, options); };
    case Kind::gather:
      return [=, this] { world_.gather(input, output, 0); };
    case Kind::scatter:
      return [=, this] { world_.scatter(input, output, 0); };
    case Kind::alltoall:
      return [=, this] { world_.alltoall(input, output); };
    case Kind::barrier:
      return [=, this] { world_.barrier(); };
    default:
      return [=, this] { world_.allreduce(input, output, op, options); };
  }
}

Library::Call Ours::asynchronous(Kind kind, ConstTensor input, Tensor output, Op op) {
  const ReduceOptions options = reduce_options();
  switch (kind) {
    case Kind::broadcast:
      return [=, this] { world_.broadcast_async(output, 0).wait(); };
    case Kind::reduce:
      return [=, this] { world_.reduce_async(input, output, 0, op, options).wait(); };
    case Kind::allgather:
      return [=, this] { world_.allgather_async(input, output).wait(); };
    case Kind::reduce_scatter:
      return [=, this] { world_.reduce_scatter_async(input, output, op, options).wait(); };
    case Kind::gather:
      return [=, this] { world_.gather_async(input, output, 0).wait(); };
    case Kind::scatter:
      return [=, this] { world_.scatter_async(input, output, 0).wait(); };
    case Kind::alltoall:
      return [=, this] { world_.alltoall_async(input, output).wait(); };
    case Kind::barrier:
      return [=, this] { world_.barrier_async().wait(); };
    default:
      return [=, this] { world_.allreduce_async(input, output, op, options).wait(); };
  }
}

}  // namespace anello::bench
