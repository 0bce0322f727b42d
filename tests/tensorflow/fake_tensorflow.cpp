// The functions of the fake TensorFlow's C API, except those of shapes.
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "tests/tensorflow/fake_objects.hpp"
#include "tests/tensorflow/fake_registry.hpp"

namespace anello::tensorflow::fake {
namespace {

constexpr int kInvalidArgument = 3, kNotFound = 5, kAlreadyExists = 6, kOutOfRange = 11;
constexpr std::size_t kAlignment = 64;

std::size_t size_of_type(int type) {
  for (const auto& [number, bytes] : std::initializer_list<std::pair<int, std::size_t>>{{1, 4},
                                                                                        {2, 8},
                                                                                        {3, 4},
                                                                                        {4, 1},
                                                                                        {5, 2},
                                                                                        {6, 1},
                                                                                        {8, 8},
                                                                                        {9, 8},
                                                                                        {10, 1},
                                                                                        {11, 1},
                                                                                        {14, 2},
                                                                                        {17, 2},
                                                                                        {19, 2},
                                                                                        {22, 4},
                                                                                        {23, 8}})
    if (number == type) return bytes;
  return 0;
}

TF_Tensor* tensor_of(const Value& value, TF_OpKernelContext* context) {
  return new TF_Tensor(value, context->holds);
}

void set(TF_Status* status, int code, const std::string& message) {
  status->code = code;
  status->message = message;
}

// Attributes.

template <class T>
void get(const char* function, TF_OpKernelConstruction* node, const char* name, TF_Status* status,
         const std::function<void(const T&)>& take) {
  if (fails(function, status)) return;
  const auto found = node->attributes.find(name);
  if (found == node->attributes.end()) return set(status, kNotFound, std::string("there is no attribute ") + name);
  if (const T* value = std::get_if<T>(&found->second)) return take(*value);
  set(status, kInvalidArgument, std::string("of another type: ") + name);
}

void get_int(TF_OpKernelConstruction* node, const char* name, int32_t* value, TF_Status* status) {
  get<int32_t>("TF_OpKernelConstruction_GetAttrInt32", node, name, status, [&](int32_t its) { *value = its; });
}
void get_bool(TF_OpKernelConstruction* node, const char* name, unsigned char* value, TF_Status* status) {
  get<bool>("TF_OpKernelConstruction_GetAttrBool", node, name, status, [&](bool its) { *value = its; });
}
void get_size(TF_OpKernelConstruction* node, const char* name, int32_t* list, int32_t* total, TF_Status* status) {
  get<std::string>("TF_OpKernelConstruction_GetAttrSize", node, name, status, [&](const std::string& its) {
    *list = -1;
    *total = int32_t(its.size());
  });
}
void get_string(TF_OpKernelConstruction* node, const char* name, char* value, std::size_t room, TF_Status* status) {
  get<std::string>("TF_OpKernelConstruction_GetAttrString", node, name, status, [&](const std::string& its) {
    std::copy_n(its.data(), std::min(room, its.size()), value);  // without a zero at the end
  });
}
void construction_failure(TF_OpKernelConstruction* node, TF_Status* status) {
  node->failure = {status->code, status->message, {}};
}

// Tensors of a kernel.

void get_input(TF_OpKernelContext* context, int index, TF_Tensor** tensor, TF_Status* status) {
  require_running(context);
  if (fails("TF_GetInput", status)) return;
  if (index < 0 || index >= int(context->inputs.size())) return set(status, kOutOfRange, "there is no such input");
  const auto& input = context->inputs[std::size_t(index)];
  if (!input) misused("an input that was passed on is taken");
  *tensor = tensor_of(*input, context);
}

// Returns the place of an output of this type that has not been set.
std::optional<Value>& output_of(TF_OpKernelContext* context, int index, int type) {
  require_running(context);
  if (index < 0 || index >= int(context->outputs.size())) misused("there is no such output");
  if (context->types[std::size_t(index)] != type) misused("an output has another type than its op says");
  auto& output = context->outputs[std::size_t(index)];
  if (output) misused("an output is set twice");
  return output;
}

void set_output(TF_OpKernelContext* context, int index, const TF_Tensor* tensor, TF_Status* status) {
  if (fails("TF_SetOutput", status)) return;
  output_of(context, index, tensor->value.type) = tensor->value;
}
TF_Tensor* allocate_output(TF_OpKernelContext* context, int index, int type, const int64_t* dims, int dimensions,
                           std::size_t bytes, TF_Status* status) {
  if (fails("TF_AllocateOutput", status)) return nullptr;
  auto& output = output_of(context, index, type);
  output = new_value(type, {dims, dims + dimensions});
  if (output->buffer->bytes != bytes) misused("an output of so many bytes does not have these dimensions");
  return tensor_of(*output, context);
}
TF_Tensor* forward_or_allocate(TF_OpKernelContext* context, const int* candidates, int count, int index,
                               const int64_t* dims, int dimensions, int* forwarded, TF_Status* status) {
  if (fails("TF_ForwardInputOrAllocateOutput", status)) return nullptr;
  *forwarded = -1;
  require_running(context);
  const std::vector<int64_t> shape(dims, dims + dimensions);
  const int type = context->types.at(std::size_t(index));
  for (int k = 0; k < count; k++) {
    auto& input = context->inputs.at(std::size_t(candidates[k]));
    if (!input || input->type != type || input->dims != shape || input->buffer.use_count() != 1) continue;
    *forwarded = candidates[k];
    auto& output = output_of(context, index, type) = std::move(*input);
    input.reset();
    return tensor_of(*output, context);
  }
  auto& output = output_of(context, index, type) = new_value(type, shape);
  return tensor_of(*output, context);
}
TF_Tensor* new_tensor(int type, const int64_t* dims, int dimensions, void* data, std::size_t bytes, Deallocator free,
                      void* argument) {
  Value made = new_value(type, {dims, dims + dimensions});
  if (made.buffer->bytes > bytes) return nullptr;
  if (std::uintptr_t(data) % kAlignment != 0) {  // a copy, so that vector instructions work
    std::memcpy(made.buffer->data, data, bytes);
    free(data, bytes, argument);
    return new TF_Tensor(made);
  }
  made.buffer = std::make_shared<Buffer>();
  made.buffer->data = data;
  made.buffer->bytes = bytes;
  made.buffer->free = [=] { free(data, bytes, argument); };
  return new TF_Tensor(made);
}

// Registration.

void register_definition(TF_OpDefinitionBuilder* builder, TF_Status* status) {
  const std::unique_ptr<TF_OpDefinitionBuilder> its(builder);
  if (fails("TF_RegisterOpDefinition", status)) return;
  try {
    if (!add_op(read_op(*builder))) set(status, kAlreadyExists, "there is an op " + builder->name);
  } catch (const std::invalid_argument& why) {
    set(status, kInvalidArgument, why.what());
  }
}
TF_KernelBuilder* new_kernel(const KernelDefinition& kernel) {
  auto* made = new TF_KernelBuilder;
  made->kernel = kernel;
  return made;
}
void register_kernel(const char*, TF_KernelBuilder* builder, TF_Status* status) {
  const std::unique_ptr<TF_KernelBuilder> its(builder);
  if (fails("TF_RegisterKernelBuilder", status)) return;
  const std::string why = add_kernel(builder->kernel);
  if (!why.empty()) set(status, kInvalidArgument, why);
}

}  // namespace

Value new_value(int type, const std::vector<int64_t>& dims) {
  if (std::ranges::any_of(dims, [](int64_t dim) { return dim < 0; })) misused("a dimension is negative");
  const auto count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  Value made{type, dims, std::make_shared<Buffer>()};
  made.buffer->bytes = std::size_t(count) * size_of_type(type);
  if (made.buffer->bytes == 0) return made;  // without memory
  const std::size_t room = (made.buffer->bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, room);
  std::memset(data, 0xEE, room);
  made.buffer->data = data;
  made.buffer->free = [data] { std::free(data); };
  return made;
}

CApi functions_of_ops() {
  CApi all;
  all.NewStatus = [] { return new TF_Status; };
  all.DeleteStatus = [](TF_Status* status) { delete status; };
  all.SetStatus = [](TF_Status* status, int code, const char* message) { set(status, code, message); };
  all.GetCode = [](const TF_Status* status) { return status->code; };
  all.Message = [](const TF_Status* status) { return status->message.c_str(); };
  all.NewOpDefinitionBuilder = [](const char* name) {
    auto* made = new TF_OpDefinitionBuilder;
    made->name = name;
    return made;
  };
  all.OpDefinitionBuilderAddAttr = [](TF_OpDefinitionBuilder* op, const char* spec) { op->attributes.push_back(spec); };
  all.OpDefinitionBuilderAddInput = [](TF_OpDefinitionBuilder* op, const char* spec) { op->inputs.push_back(spec); };
  all.OpDefinitionBuilderAddOutput = [](TF_OpDefinitionBuilder* op, const char* spec) { op->outputs.push_back(spec); };
  // TensorFlow also ignores the argument.
  all.OpDefinitionBuilderSetIsStateful = [](TF_OpDefinitionBuilder* op, bool) { op->stateful = true; };
  all.OpDefinitionBuilderSetShapeInferenceFunction = [](TF_OpDefinitionBuilder* op, ShapeFunction shapes) {
    op->shapes = shapes;
  };
  all.RegisterOpDefinition = register_definition;
  all.NewKernelBuilder = [](const char* op, const char* device, CreateKernel create, Compute compute,
                            DeleteKernel destroy) {
    return new_kernel({op, device, create, compute, nullptr, destroy, {}});
  };
  all.NewAsyncKernelBuilder = [](const char* op, const char* device, CreateKernel create, ComputeAsync compute,
                                 DeleteKernel destroy) {
    return new_kernel({op, device, create, nullptr, compute, destroy, {}});
  };
  all.KernelBuilder_HostMemory = [](TF_KernelBuilder* builder, const char* argument) {
    builder->kernel.host_memory.insert(argument);
  };
  all.RegisterKernelBuilder = register_kernel;
  all.RunAsyncOpKernelDoneCallback = run_done;
  all.OpKernelConstruction_GetName = [](TF_OpKernelConstruction* node) {
    return StringView{node->name.data(), node->name.size()};
  };
  all.OpKernelConstruction_GetAttrInt32 = get_int;
  all.OpKernelConstruction_GetAttrBool = get_bool;
  all.OpKernelConstruction_GetAttrSize = get_size;
  all.OpKernelConstruction_GetAttrString = get_string;
  all.OpKernelConstruction_Failure = construction_failure;
  return all;
}

void add_functions_of_tensors(CApi& all) {
  all.OpKernelContext_Failure = [](TF_OpKernelContext* context, TF_Status* status) {
    require_running(context);
    context->failure = {status->code, status->message, {}};
  };
  all.NumInputs = [](TF_OpKernelContext* context) { return int(context->inputs.size()); };
  all.GetInput = get_input;
  all.SetOutput = set_output;
  all.AllocateOutput = allocate_output;
  all.ForwardInputOrAllocateOutput = forward_or_allocate;
  all.GetFrameId = [](TF_OpKernelContext* context) { return context->run.frame; };
  all.GetIterId = [](TF_OpKernelContext* context) { return context->run.iteration; };
  all.NewTensor = new_tensor;
  all.DeleteTensor = [](TF_Tensor* tensor) { delete tensor; };
  all.TensorType = [](const TF_Tensor* tensor) { return tensor->value.type; };
  all.NumDims = [](const TF_Tensor* tensor) { return int(tensor->value.dims.size()); };
  all.Dim = [](const TF_Tensor* tensor, int index) { return tensor->value.dims.at(std::size_t(index)); };
  all.TensorByteSize = [](const TF_Tensor* tensor) { return tensor->value.buffer->bytes; };
  all.TensorData = [](const TF_Tensor* tensor) { return tensor->value.buffer->data; };
  all.DataTypeSize = size_of_type;
}

}  // namespace anello::tensorflow::fake
