// The ops and kernels that are registered with the fake TensorFlow, and the nodes that run.
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <stdexcept>

#include "tests/tensorflow/fake_registry.hpp"

namespace anello::tensorflow::fake {
namespace {

struct Graph {
  std::map<std::string, Op> ops;
  std::map<std::pair<std::string, std::string>, KernelDefinition> kernels;  // by op and device
  bool other_callbacks = false;
};
Graph graph;

std::mutex running_mutex;
std::set<const TF_OpKernelContext*> running;

// A callback with another layout than libstdc++'s std::function.
struct OtherCallback {
  TF_OpKernelContext* context;
  std::uintptr_t rest[3] = {0, 1, 2};
};
static_assert(sizeof(OtherCallback) == sizeof(std::function<void()>));

std::unique_ptr<TF_OpKernelContext> take_running(TF_OpKernelContext* context) {
  require_running(context);
  const std::lock_guard lock(running_mutex);
  running.erase(context);
  return std::unique_ptr<TF_OpKernelContext>(context);
}

// Acts as the executor when a kernel has called back: frees the context before others receive the result.
void end(TF_OpKernelContext* raw) {
  auto context = take_running(raw);
  // If the kernel still holds memory, TensorFlow cannot pass this memory on to the next node.
  if (context->holds.use_count() != 1) misused("a kernel that ends holds tensors");
  Result result = std::move(context->failure);
  for (auto& output : result.code == 0 ? context->outputs : std::vector<std::optional<Value>>{}) {
    if (!output) misused("a kernel has ended without an output and without an error");
    result.outputs.push_back(std::move(*output));
  }
  auto ended = std::move(context->ended);
  context.reset();
  ended.set_value(std::move(result));
}

// The callback is destroyed when the kernel returns, and its memory is overwritten.
void run_async(const KernelDefinition& kernel, void* made, TF_OpKernelContext* context) {
  alignas(std::function<void()>) std::byte place[sizeof(std::function<void()>)];
  auto* const given = reinterpret_cast<TF_AsyncOpKernelDoneCallback*>(place);
  if (graph.other_callbacks) {
    new (place) OtherCallback{context};
    kernel.compute_async(made, context, given);
  } else {
    auto* done = new (place) std::function<void()>([context] { end(context); });
    kernel.compute_async(made, context, given);
    done->~function();
  }
  std::memset(place, 0xEE, sizeof place);
}

std::map<std::string, Attribute> with_defaults(const Op& op, std::map<std::string, Attribute> given) {
  for (const auto& [name, value] : given) {
    const auto found = op.attributes.find(name);
    if (found == op.attributes.end()) throw std::invalid_argument(op.name + " has no attribute " + name);
    const auto* text = std::get_if<std::string>(&value);
    const auto& allowed = found->second.allowed;
    if (text && !allowed.empty() && !allowed.contains(*text)) throw std::invalid_argument("not allowed: " + *text);
  }
  for (const auto& [name, its] : op.attributes) {
    if (its.kind == "type" || its.kind == "list" || given.contains(name)) continue;
    if (!its.value_if_missing) throw std::invalid_argument(op.name + " needs the attribute " + name);
    given[name] = *its.value_if_missing;
  }
  return given;
}

}  // namespace

void require_running(const TF_OpKernelContext* context) {
  const std::lock_guard lock(running_mutex);
  if (!running.contains(context)) misused("a kernel has ended before");
}

void run_done(TF_AsyncOpKernelDoneCallback* done) {
  if (graph.other_callbacks)
    end(reinterpret_cast<OtherCallback*>(done)->context);
  else
    (*reinterpret_cast<std::function<void()>*>(done))();
}

void begin() {
  graph = {};
  forget_injected();
}

int living() {
  return living_objects;
}

void give_other_callbacks() {
  graph.other_callbacks = true;
}

bool add_op(Op op) {
  return graph.ops.emplace(op.name, op).second;
}

std::string add_kernel(const KernelDefinition& kernel) {
  const auto op = graph.ops.find(kernel.op);
  if (op == graph.ops.end()) return "there is no op " + kernel.op;
  for (const std::string& name : kernel.host_memory) {
    const auto is_it = [&](const Argument& each) { return each.name == name; };
    if (std::ranges::none_of(op->second.inputs, is_it) && std::ranges::none_of(op->second.outputs, is_it))
      return kernel.op + " has no argument " + name;
  }
  return graph.kernels.emplace(std::pair(kernel.op, kernel.device), kernel).second ? "" : "there twice: " + kernel.op;
}

const std::map<std::string, Op>& ops() {
  return graph.ops;
}
const KernelDefinition& kernel(const std::string& op, const std::string& device) {
  return graph.kernels.at({op, device});
}

std::vector<Shape> infer(const std::string& op, const std::vector<Shape>& inputs, std::size_t outputs) {
  TF_ShapeInferenceContext context{inputs, std::vector<Shape>(outputs)};
  TF_Status status;
  graph.ops.at(op).shapes(&context, &status);
  if (status.code != 0) throw std::invalid_argument(status.message);
  return context.outputs;
}

Node::Node(const std::string& op, const std::string& name, std::map<std::string, Attribute> attributes,
           std::vector<int> types)
    : kernel_(kernel(op)), types_(std::move(types)) {
  TF_OpKernelConstruction construction{name, with_defaults(graph.ops.at(op), std::move(attributes)), {}};
  made_ = kernel_.create(&construction);
  failure_ = construction.failure;
}
Node::~Node() {
  kernel_.destroy(made_);  // also if there is none
}

std::future<Result> Node::run(std::vector<Value> inputs, Run run) const {
  if (failure_.code != 0) throw std::invalid_argument(failure_.message);
  auto* context = new TF_OpKernelContext{{}, std::vector<std::optional<Value>>(types_.size()), types_, run};
  for (Value& input : inputs) context->inputs.emplace_back(std::move(input));
  auto result = context->ended.get_future();
  {
    const std::lock_guard lock(running_mutex);
    running.insert(context);
  }
  if (kernel_.compute_async) {
    run_async(kernel_, made_, context);
  } else {
    kernel_.compute(made_, context);
    end(context);
  }
  return result;
}

}  // namespace anello::tensorflow::fake
