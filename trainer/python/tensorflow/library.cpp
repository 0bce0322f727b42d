#include "trainer/python/tensorflow/library.hpp"

#include <vector>

#include "trainer/python/tensorflow/numbers.hpp"
#include "trainer/python/tensorflow/shape_functions.hpp"
#include "trainer/python/tensorflow/verbs.hpp"

namespace anello::tensorflow {
namespace {

using Specs = std::vector<std::string>;  // "name: type", TensorFlow's notation

// An op of the library, without its kernel.
struct Definition {
  const char* name;
  Specs attributes, inputs, outputs;
  ShapeFunction shapes;
  bool stateful = false;
};

void define(const Definition& op) {
  TF_OpDefinitionBuilder* builder = tf.NewOpDefinitionBuilder(op.name);
  for (const auto& each : op.attributes) tf.OpDefinitionBuilderAddAttr(builder, each.c_str());
  for (const auto& each : op.inputs) tf.OpDefinitionBuilderAddInput(builder, each.c_str());
  for (const auto& each : op.outputs) tf.OpDefinitionBuilderAddOutput(builder, each.c_str());
  // TensorFlow ignores the function's argument: even false would make the op stateful.
  if (op.stateful) tf.OpDefinitionBuilderSetIsStateful(builder, true);
  tf.OpDefinitionBuilderSetShapeInferenceFunction(builder, op.shapes);
  const Status status;
  tf.RegisterOpDefinition(builder, status);
  status.require_ok();
}

// An op on a GPU has its inputs and outputs in host memory: TensorFlow copies them there and back.
void register_kernel(const Definition& op, const char* device, TF_KernelBuilder* builder) {
  const bool on_host = std::string_view(device) == "CPU";
  for (const Specs* arguments : {&op.inputs, &op.outputs})
    for (const auto& each : *arguments)
      if (!on_host) tf.KernelBuilder_HostMemory(builder, each.substr(0, each.find(':')).c_str());
  const Status status;
  tf.RegisterKernelBuilder(op.name, builder, status);
  status.require_ok();
}

constexpr const char* kDevices[] = {"CPU", "GPU"};

// Makes a `Kernel` from a node; TensorFlow holds it as a `Base`.
template <class Base, class Kernel>
void* create(TF_OpKernelConstruction* node) {
  Base* made = nullptr;
  const auto failure = failure_of([&] { made = new Kernel(node); });
  if (failure) tf.OpKernelConstruction_Failure(node, Status(*failure));
  return made;
}

template <class Base>
void destroy(void* kernel) {
  delete static_cast<Base*>(kernel);
}

template <class Verb>
void add(const Definition& op) {
  const ComputeAsync run = [](void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done) {
    static_cast<const Collective*>(kernel)->run(context, done);
  };
  define(op);
  for (const char* device : kDevices)
    register_kernel(op, device,
                    tf.NewAsyncKernelBuilder(op.name, device, create<Collective, Verb>, run, destroy<Collective>));
}

template <class Kernel>
void add_number(const char* name, Specs attributes = {}) {
  const Compute run = [](void* kernel, TF_OpKernelContext* context) {
    static_cast<const Number*>(kernel)->run(context);
  };
  const Definition op{name, std::move(attributes), {}, {"number: int32"}, scalar_shape, true};
  define(op);
  for (const char* device : kDevices)
    register_kernel(op, device, tf.NewKernelBuilder(op.name, device, create<Number, Kernel>, run, destroy<Number>));
}

Specs operator+(Specs first, const Specs& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// TensorFlow merges equal stateless nodes. While it prepares a graph, it runs nodes with constant inputs, in an order
// that differs between ranks. The attribute `distinct` prevents the merging, the input `now` the early run. Stateful
// ops are no solution: TensorFlow would run them one after the other.
void add_collectives() {
  const std::string types = names_of_types();
  const Specs set = {"process_set: int = 0"};
  const Specs name = set + Specs{"ignore_name_scope: bool = false", "waits: bool = false"};
  const Specs one = name + Specs{"distinct: string", "T: " + types};
  const Specs list = name + Specs{"distinct: string", "T: list(" + types + ") >= 1"};
  const Specs reduction = list + Specs{"reduce_op: int = 1", "prescale: string = '1'", "postscale: string = '1'"};
  const Specs tensors = {"tensors: T", "now: int32"};
  add<Allreduce>(
      {"AnelloAllreduce", reduction + Specs{"wire: {'', 'f16', 'bf16'} = ''"}, tensors, {"reduced: T"}, same_shapes});
  add<Reducescatter>({"AnelloReducescatter", reduction, tensors, {"scattered: T"}, other_rows});
  add<Allgather>({"AnelloAllgather", list, tensors, {"gathered: T", "rows: int64"}, allgather_shapes});
  add<Broadcast>({"AnelloBroadcast", list + Specs{"root: int"}, tensors, {"received: T"}, same_shapes});
  add<Alltoall>({"AnelloAlltoall",
                 one,
                 {"tensor: T", "splits: int32", "now: int32"},
                 {"output: T", "received_splits: int32"},
                 alltoall_shapes});
  add<Barrier>({"AnelloBarrier", name, {}, {}, no_shapes, true});
  add<Join>({"AnelloJoin", set, {}, {"last: int32"}, scalar_shape, true});
}

void add_numbers() {
  const Specs set = {"process_set: int = 0"};
  add_number<SetNumber<rank_in>>("AnelloRank", set);
  add_number<SetNumber<size_of>>("AnelloSize", set);
  add_number<SetNumber<is_included_in>>("AnelloProcessSetIncluded", set);
  add_number<WorldNumber<local_rank>>("AnelloLocalRank");
  add_number<WorldNumber<local_size>>("AnelloLocalSize");
}

}  // namespace

std::string register_ops(void* (*look_up)(const char* name)) {
  if (const char* missing = load_c_api(look_up))
    return std::string("libtensorflow_framework.so.2 has no function ") + missing;
  const auto failure = failure_of([] {
    add_collectives();
    add_numbers();
  });
  return failure ? failure->what() : "";
}

}  // namespace anello::tensorflow
