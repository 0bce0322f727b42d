// The functions of TensorFlow's C API (for ops and kernels) that are used, declared without TensorFlow's headers. They
// are looked up in the TensorFlow that the process has loaded, so that one build serves all versions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

extern "C" {
struct TF_Status;
struct TF_Tensor;
struct TF_OpDefinitionBuilder;
struct TF_ShapeHandle;
struct TF_ShapeInferenceContext;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;
}

namespace anello::tensorflow {

struct StringView {  // TF_StringView
  const char* data;
  std::size_t length;
};

using ShapeFunction = void (*)(TF_ShapeInferenceContext*, TF_Status*);
using CreateKernel = void* (*)(TF_OpKernelConstruction*);
using Compute = void (*)(void* kernel, TF_OpKernelContext*);
using ComputeAsync = void (*)(void* kernel, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);
using DeleteKernel = void (*)(void* kernel);
using Deallocator = void (*)(void* data, size_t length, void* argument);

// ANELLO_TF_FUNCTIONS(X): X(result, name without TF_, arguments)
#define ANELLO_TF_FUNCTIONS(X)                                                                                      \
  X(TF_Status*, NewStatus, ())                                                                                      \
  X(void, DeleteStatus, (TF_Status*))                                                                               \
  X(void, SetStatus, (TF_Status*, int code, const char* message))                                                   \
  X(int, GetCode, (const TF_Status*))                                                                               \
  X(const char*, Message, (const TF_Status*))                                                                       \
  X(TF_OpDefinitionBuilder*, NewOpDefinitionBuilder, (const char* name))                                            \
  X(void, OpDefinitionBuilderAddAttr, (TF_OpDefinitionBuilder*, const char*))                                       \
  X(void, OpDefinitionBuilderAddInput, (TF_OpDefinitionBuilder*, const char*))                                      \
  X(void, OpDefinitionBuilderAddOutput, (TF_OpDefinitionBuilder*, const char*))                                     \
  X(void, OpDefinitionBuilderSetIsStateful, (TF_OpDefinitionBuilder*, bool))                                        \
  X(void, OpDefinitionBuilderSetShapeInferenceFunction, (TF_OpDefinitionBuilder*, ShapeFunction))                   \
  X(void, RegisterOpDefinition, (TF_OpDefinitionBuilder*, TF_Status*))                                              \
  X(int64_t, ShapeInferenceContextNumInputs, (TF_ShapeInferenceContext*))                                           \
  X(TF_ShapeHandle*, NewShapeHandle, ())                                                                            \
  X(void, DeleteShapeHandle, (TF_ShapeHandle*))                                                                     \
  X(void, ShapeInferenceContextGetInput, (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))             \
  X(void, ShapeInferenceContextSetOutput, (TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*))            \
  X(TF_ShapeHandle*, ShapeInferenceContextScalar, (TF_ShapeInferenceContext*))                                      \
  X(int, ShapeInferenceContextRankKnown, (TF_ShapeInferenceContext*, TF_ShapeHandle*))                              \
  X(int64_t, ShapeInferenceContextRank, (TF_ShapeInferenceContext*, TF_ShapeHandle*))                               \
  X(void, ShapeInferenceContextSubshape,                                                                            \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, int64_t start, int64_t end, TF_ShapeHandle * result, TF_Status*))  \
  X(TF_ShapeHandle*, ShapeInferenceContextVectorFromSize, (TF_ShapeInferenceContext*, size_t))                      \
  X(void, ShapeInferenceContextConcatenateShapes,                                                                   \
    (TF_ShapeInferenceContext*, TF_ShapeHandle*, TF_ShapeHandle*, TF_ShapeHandle * result, TF_Status*))             \
  X(TF_KernelBuilder*, NewKernelBuilder, (const char* op, const char* device, CreateKernel, Compute, DeleteKernel)) \
  X(TF_KernelBuilder*, NewAsyncKernelBuilder,                                                                       \
    (const char* op, const char* device, CreateKernel, ComputeAsync, DeleteKernel))                                 \
  X(void, KernelBuilder_HostMemory, (TF_KernelBuilder*, const char* argument))                                      \
  X(void, RegisterKernelBuilder, (const char* name, TF_KernelBuilder*, TF_Status*))                                 \
  X(void, RunAsyncOpKernelDoneCallback, (TF_AsyncOpKernelDoneCallback*))                                            \
  X(StringView, OpKernelConstruction_GetName, (TF_OpKernelConstruction*))                                           \
  X(void, OpKernelConstruction_GetAttrInt32, (TF_OpKernelConstruction*, const char*, int32_t*, TF_Status*))         \
  X(void, OpKernelConstruction_GetAttrBool, (TF_OpKernelConstruction*, const char*, unsigned char*, TF_Status*))    \
  X(void, OpKernelConstruction_GetAttrSize,                                                                         \
    (TF_OpKernelConstruction*, const char*, int32_t* list_size, int32_t* total_size, TF_Status*))                   \
  X(void, OpKernelConstruction_GetAttrString,                                                                       \
    (TF_OpKernelConstruction*, const char*, char* value, size_t max_length, TF_Status*))                            \
  X(void, OpKernelConstruction_Failure, (TF_OpKernelConstruction*, TF_Status*))                                     \
  X(void, OpKernelContext_Failure, (TF_OpKernelContext*, TF_Status*))                                               \
  X(int, NumInputs, (TF_OpKernelContext*))                                                                          \
  X(void, GetInput, (TF_OpKernelContext*, int, TF_Tensor**, TF_Status*))                                            \
  X(void, SetOutput, (TF_OpKernelContext*, int, const TF_Tensor*, TF_Status*))                                      \
  X(TF_Tensor*, AllocateOutput,                                                                                     \
    (TF_OpKernelContext*, int, int type, const int64_t* dims, int dimensions, size_t bytes, TF_Status*))            \
  X(TF_Tensor*, ForwardInputOrAllocateOutput,                                                                       \
    (TF_OpKernelContext*, const int* candidates, int count, int output, const int64_t* dims, int dimensions,        \
     int* forwarded, TF_Status*))                                                                                   \
  X(uint64_t, GetFrameId, (TF_OpKernelContext*))                                                                    \
  X(int64_t, GetIterId, (TF_OpKernelContext*))                                                                      \
  X(TF_Tensor*, NewTensor,                                                                                          \
    (int type, const int64_t* dims, int dimensions, void* data, size_t bytes, Deallocator, void* argument))         \
  X(void, DeleteTensor, (TF_Tensor*))                                                                               \
  X(int, TensorType, (const TF_Tensor*))                                                                            \
  X(int, NumDims, (const TF_Tensor*))                                                                               \
  X(int64_t, Dim, (const TF_Tensor*, int))                                                                          \
  X(size_t, TensorByteSize, (const TF_Tensor*))                                                                     \
  X(void*, TensorData, (const TF_Tensor*))                                                                          \
  X(size_t, DataTypeSize, (int type))

struct CApi {
#define ANELLO_TF_MEMBER(result, name, arguments) std::add_pointer_t<result arguments> name = nullptr;
  ANELLO_TF_FUNCTIONS(ANELLO_TF_MEMBER)
#undef ANELLO_TF_MEMBER
};

// Empty until load_c_api() has found all functions.
extern CApi tf;

// `look_up` returns the address of a function, or nullptr. Returns the name of a function that is missing, or nullptr.
const char* load_c_api(void* (*look_up)(const char* name));

}  // namespace anello::tensorflow
