// Fills NCCL's table with functions of NCCL. NCCL is loaded at the first use, so that the plugin also works on machines
// without NCCL.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "gpu/plugin/plugin.hpp"

#if ANELLO_HAS_NCCL
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

namespace {

// The functions of NCCL that are called, with their own names.
// clang-format off: it would indent each line more than the one before.
#define ANELLO_NCCL_FUNCTIONS(FUNCTION) \
  FUNCTION(ncclGetErrorString)          \
  FUNCTION(ncclGetLastError)            \
  FUNCTION(ncclGetVersion)              \
  FUNCTION(ncclGetUniqueId)             \
  FUNCTION(ncclCommInitRankConfig)      \
  FUNCTION(ncclCommSplit)               \
  FUNCTION(ncclCommGetAsyncError)       \
  FUNCTION(ncclCommFinalize)            \
  FUNCTION(ncclCommDestroy)             \
  FUNCTION(ncclCommAbort)               \
  FUNCTION(ncclGroupStart)              \
  FUNCTION(ncclGroupEnd)                \
  FUNCTION(ncclAllReduce)               \
  FUNCTION(ncclReduce)                  \
  FUNCTION(ncclBroadcast)               \
  FUNCTION(ncclAllGather)               \
  FUNCTION(ncclReduceScatter)           \
  FUNCTION(ncclSend)                    \
  FUNCTION(ncclRecv)                    \
  FUNCTION(ncclRedOpCreatePreMulSum)    \
  FUNCTION(ncclRedOpDestroy)
// clang-format on

#define ANELLO_NCCL_REGISTERS (NCCL_VERSION_CODE >= 21900)
// The functions that NCCL has since 2.19. They are called only if the NCCL that is loaded at run time has all of them.
#if ANELLO_NCCL_REGISTERS
#define ANELLO_NCCL_NEWER_FUNCTIONS(FUNCTION) \
  FUNCTION(ncclMemAlloc) FUNCTION(ncclMemFree) FUNCTION(ncclCommRegister) FUNCTION(ncclCommDeregister)
#else
#define ANELLO_NCCL_NEWER_FUNCTIONS(FUNCTION)
#endif

struct Functions {
#define ANELLO_DECLARE(name) decltype(&::name) name = nullptr;
  ANELLO_NCCL_FUNCTIONS(ANELLO_DECLARE)
  ANELLO_NCCL_NEWER_FUNCTIONS(ANELLO_DECLARE)
#undef ANELLO_DECLARE
  bool registers = ANELLO_NCCL_REGISTERS;
};
Functions nccl;

namespace dtype_value {  // anello::DType
enum {
#define ANELLO_ELEMENT_TYPE(name, value, ...) name = value,
#include <anello/element_types.def>
};
}  // namespace dtype_value
enum { kSum = 1, kAverage, kMin, kMax, kProduct };  // anello::Op

ncclComm_t comm_of(void* comm) {
  return static_cast<ncclComm_t>(comm);
}

int status_of(ncclResult_t result) {
  return result == ncclInProgress ? ANELLO_NCCL_IN_PROGRESS : static_cast<int>(result);
}

constexpr int ncclNone = -1;

bool type_of(int dtype, ncclDataType_t& type) {
  constexpr int kTypes[] = {
      ncclNone,
#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, text, common_name, kind, dlpack_code, nccl_type) nccl##nccl_type,
#include <anello/element_types.def>
  };
  const bool known = dtype > 0 && dtype < int(std::size(kTypes)) && kTypes[dtype] != ncclNone;
  if (known) type = ncclDataType_t(kTypes[dtype]);
  return known;
}

#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, text, common_name, kind, dlpack_code, nccl_type) \
  static_assert(nccl##nccl_type != ncclNone || (bytes) == 2);
#include <anello/element_types.def>

// NCCL moves elements by their size alone.
ncclDataType_t moved_type_of(int dtype) {
  ncclDataType_t type = ncclFloat16;
  type_of(dtype, type);  // the types that NCCL lacks all have 16 bits, like ncclFloat16
  return type;
}

bool is_reduced(int dtype) {
  constexpr bool real = true, integer = true, truth = true, stored = false;
  constexpr bool kReduced[] = {
      stored,
#define ANELLO_ELEMENT_TYPE(name, value, type, bytes, text, common_name, kind, ...) kind,
#include <anello/element_types.def>
  };
  return dtype > 0 && dtype < int(std::size(kReduced)) && kReduced[dtype];
}

// NCCL processes booleans as bytes of 0 and 1. So their sum (any) is the maximum, and their product (all) is the
// minimum.
bool reduction_of(int dtype, int op, ncclRedOp_t& reduction) {
  if (op < 0) return reduction = static_cast<ncclRedOp_t>(-op), true;  // a negative `op` stands for a scaled sum
  switch (op) {
    case kSum:
      return reduction = dtype == dtype_value::boolean ? ncclMax : ncclSum, true;
    case kAverage:
      return reduction = ncclAvg, dtype != dtype_value::boolean;
    case kMin:
      return reduction = ncclMin, true;
    case kMax:
      return reduction = ncclMax, true;
    case kProduct:
      return reduction = dtype == dtype_value::boolean ? ncclMin : ncclProd, true;
    default:
      return false;
  }
}

int has(int dtype, int op) {
  ncclDataType_t type{};
  ncclRedOp_t reduction{};
  return is_reduced(dtype) && type_of(dtype, type) && op > 0 && reduction_of(dtype, op, reduction) ? 1 : 0;
}

int unique_id(AnelloNcclId* id) {
  static_assert(sizeof id->bytes == sizeof(ncclUniqueId));
  ncclUniqueId unique;
  const ncclResult_t result = nccl.ncclGetUniqueId(&unique);
  std::memcpy(id->bytes, &unique, sizeof unique);
  return status_of(result);
}

ncclConfig_t without_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

int create(void** comm, int size, const AnelloNcclId* id, int rank) {
  ncclUniqueId unique;
  std::memcpy(&unique, id->bytes, sizeof unique);
  ncclConfig_t config = without_blocking();
  return status_of(nccl.ncclCommInitRankConfig(reinterpret_cast<ncclComm_t*>(comm), size, unique, rank, &config));
}

int split(void* comm, int colour, int key, void** child) {
  ncclConfig_t config = without_blocking();
  return status_of(nccl.ncclCommSplit(comm_of(comm), colour, key, reinterpret_cast<ncclComm_t*>(child), &config));
}

int state(void* comm) {
  ncclResult_t found = ncclSuccess;
  const ncclResult_t asked = nccl.ncclCommGetAsyncError(comm_of(comm), &found);
  return status_of(asked == ncclSuccess ? found : asked);
}

// A reduction and an element type of NCCL, and whether NCCL has both.
struct Reduction {
  ncclDataType_t type{};
  ncclRedOp_t op{};
  bool known;
  Reduction(int dtype, int of) : known(type_of(dtype, type) && reduction_of(dtype, of, op)) {}
};

int allreduce(const void* in, void* out, std::size_t count, int dtype, int op, void* comm, cudaStream_t stream) {
  const Reduction by(dtype, op);
  if (!by.known) return ncclInvalidArgument;
  return status_of(nccl.ncclAllReduce(in, out, count, by.type, by.op, comm_of(comm), stream));
}
int reduce(const void* in, void* out, std::size_t count, int dtype, int op, int root, void* comm, cudaStream_t stream) {
  const Reduction by(dtype, op);
  if (!by.known) return ncclInvalidArgument;
  return status_of(nccl.ncclReduce(in, out, count, by.type, by.op, root, comm_of(comm), stream));
}
int reduce_scatter(const void* in, void* out, std::size_t count, int dtype, int op, void* comm, cudaStream_t stream) {
  const Reduction by(dtype, op);
  if (!by.known) return ncclInvalidArgument;
  return status_of(nccl.ncclReduceScatter(in, out, count, by.type, by.op, comm_of(comm), stream));
}

union Scalar {
  __half f16;
  __nv_bfloat16 bf16;
  float f32;
  double f64 = 0;
};

bool encode(double factor, int dtype, Scalar& scalar) {
  if (dtype == dtype_value::f16) return scalar.f16 = __double2half(factor), true;
  if (dtype == dtype_value::bf16) return scalar.bf16 = __double2bfloat16(factor), true;
  if (dtype == dtype_value::f32) return scalar.f32 = static_cast<float>(factor), true;
  if (dtype == dtype_value::f64) return scalar.f64 = factor, true;
  return false;
}

int scaled_sum_create(int* op, double factor, int dtype, void* comm) {
  ncclDataType_t type{};
  if (!type_of(dtype, type)) return ncclInvalidArgument;
  Scalar scalar;
  if (!encode(factor, dtype, scalar)) return ncclInvalidArgument;
  ncclRedOp_t made{};
  const ncclResult_t result =
      nccl.ncclRedOpCreatePreMulSum(&made, &scalar, type, ncclScalarHostImmediate, comm_of(comm));
  *op = -static_cast<int>(made);
  return status_of(result);
}

AnelloNcclTable with_registration(AnelloNcclTable table) {
#if ANELLO_NCCL_REGISTERS
  if (!nccl.registers) return table;
  table.memory_create = [](void** memory, std::size_t bytes) { return status_of(nccl.ncclMemAlloc(memory, bytes)); };
  table.memory_destroy = [](void* memory) { return status_of(nccl.ncclMemFree(memory)); };
  table.register_memory = [](void* comm, void* memory, std::size_t bytes, void** handle) {
    return status_of(nccl.ncclCommRegister(comm_of(comm), memory, bytes, handle));
  };
  table.deregister_memory = [](void* comm, void* handle) {
    return status_of(nccl.ncclCommDeregister(comm_of(comm), handle));
  };
#endif
  return table;
}

// Loads NCCL. Returns the reason if it cannot be used, otherwise an empty text.
const char* load() {
  static char why[512];
  void* handle = nullptr;
  for (const char* name : {"libnccl.so.2", "libnccl.so"})
    if (!handle) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    std::snprintf(why, sizeof why, "%s; install NCCL (libnccl2), or set LD_LIBRARY_PATH to its folder", dlerror());
    return why;
  }
  // Makes NCCL order the kernels of several communicators that ranks start at the same time.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  const char* missing = nullptr;
#define ANELLO_LOAD(name)                                                  \
  nccl.name = reinterpret_cast<decltype(nccl.name)>(dlsym(handle, #name)); \
  if (!nccl.name) missing = #name;
  ANELLO_NCCL_FUNCTIONS(ANELLO_LOAD)
  const char* const needed = missing;
  ANELLO_NCCL_NEWER_FUNCTIONS(ANELLO_LOAD)
#undef ANELLO_LOAD
  if (missing) nccl.registers = false;
  missing = needed;
  if (!missing) return "";
  std::snprintf(why, sizeof why, "NCCL is too old: it has no %s; 2.18 or newer is needed", missing);
  return why;
}

}  // namespace

const AnelloNcclTable* anello_nccl_table(const char** why_not) {
  static const char* const why = load();
  static const AnelloNcclTable table = with_registration({
      .describe =
          [](int status) {
            if (status == ANELLO_NCCL_IN_PROGRESS) return "an earlier call is still in progress";
            return nccl.ncclGetErrorString(static_cast<ncclResult_t>(status));
          },
      .details = [](void* comm) { return nccl.ncclGetLastError(comm_of(comm)); },
      .version = [](int* version) { return status_of(nccl.ncclGetVersion(version)); },
      .has = has,
      .unique_id = unique_id,
      .create = create,
      .split = split,
      .state = state,
      .finalize = [](void* comm) { return status_of(nccl.ncclCommFinalize(comm_of(comm))); },
      .destroy = [](void* comm) { return status_of(nccl.ncclCommDestroy(comm_of(comm))); },
      .abort = [](void* comm) { return status_of(nccl.ncclCommAbort(comm_of(comm))); },
      .group_start = [] { return status_of(nccl.ncclGroupStart()); },
      .group_end = [] { return status_of(nccl.ncclGroupEnd()); },
      .allreduce = allreduce,
      .reduce = reduce,
      .broadcast =
          [](const void* in, void* out, std::size_t count, int dtype, int root, void* comm, cudaStream_t stream) {
            return status_of(nccl.ncclBroadcast(in, out, count, moved_type_of(dtype), root, comm_of(comm), stream));
          },
      .allgather =
          [](const void* in, void* out, std::size_t count, int dtype, void* comm, cudaStream_t stream) {
            return status_of(nccl.ncclAllGather(in, out, count, moved_type_of(dtype), comm_of(comm), stream));
          },
      .reduce_scatter = reduce_scatter,
      .send =
          [](const void* in, std::size_t count, int dtype, int to, void* comm, cudaStream_t stream) {
            return status_of(nccl.ncclSend(in, count, moved_type_of(dtype), to, comm_of(comm), stream));
          },
      .recv =
          [](void* out, std::size_t count, int dtype, int from, void* comm, cudaStream_t stream) {
            return status_of(nccl.ncclRecv(out, count, moved_type_of(dtype), from, comm_of(comm), stream));
          },
      .scaled_sum_create = scaled_sum_create,
      .scaled_sum_destroy =
          [](int op, void* comm) {
            return status_of(nccl.ncclRedOpDestroy(static_cast<ncclRedOp_t>(-op), comm_of(comm)));
          },
      .memory_create = nullptr,
      .memory_destroy = nullptr,
      .register_memory = nullptr,
      .deregister_memory = nullptr,
  });
  *why_not = why;
  return *why ? nullptr : &table;
}
#else
const AnelloNcclTable* anello_nccl_table(const char** why_not) {
  *why_not = "the plugin was built without NCCL: " ANELLO_AGAINST_NCCL;
  return nullptr;
}
#endif
