#include "gpu/kernels/blas.hpp"

#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <new>

namespace {

constexpr int kFirstStatus = 10000;  // cuBLAS's statuses are numbered from here, after CUDA's
constexpr int kNotLoaded = 20000;

struct Functions {
  decltype(&::cublasCreate_v2) create = nullptr;
  decltype(&::cublasDestroy_v2) destroy = nullptr;
  decltype(&::cublasSetStream_v2) set_stream = nullptr;
  decltype(&::cublasSetWorkspace_v2) set_workspace = nullptr;
  decltype(&::cublasSgemm_v2) sgemm = nullptr;
  decltype(&::cublasGetStatusString) describe = nullptr;
  char why_not[512] = "";

  Functions();
};

#define ANELLO_TEXT(value) #value
#define ANELLO_TEXT_OF(macro) ANELLO_TEXT(macro)
constexpr const char* kFile = "libcublas.so." ANELLO_TEXT_OF(CUBLAS_VER_MAJOR);

Functions::Functions() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  const auto find = [&](auto& function, const char* name) {
    function = library ? reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name)) : nullptr;
    return function != nullptr;
  };
  const bool all = find(create, "cublasCreate_v2") && find(destroy, "cublasDestroy_v2") &&
                   find(set_stream, "cublasSetStream_v2") && find(set_workspace, "cublasSetWorkspace_v2") &&
                   find(sgemm, "cublasSgemm_v2") && find(describe, "cublasGetStatusString");
  if (all) return;
  std::snprintf(why_not, sizeof why_not,
                "%s; install cuBLAS (with CUDA, or with PyTorch), or set LD_LIBRARY_PATH to its folder", dlerror());
}

const Functions& cublas() {
  static const Functions loaded;
  return loaded;
}

// The workspace of the products, made here: while a stream is captured, cuBLAS would otherwise add an allocation to the
// graph for each product. It has the size of cuBLAS's own workspace on sm_90, so that cuBLAS chooses the same
// algorithms.
struct Context {
  cublasHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;  // the stream that the handle and its workspace use
  bool set = false;
  void* workspace = nullptr;
};
constexpr std::size_t kWorkspaceBytes = 32 << 20;

int status_of(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? 0 : kFirstStatus + static_cast<int>(status);
}

// Sets the stream and then the workspace, because cuBLAS drops the workspace whenever its stream is set.
int use(Context& context, cudaStream_t stream) {
  if (context.set && context.stream == stream) return 0;
  if (const int status = status_of(cublas().set_stream(context.handle, stream))) return status;
  if (const int status = status_of(cublas().set_workspace(context.handle, context.workspace, kWorkspaceBytes)))
    return status;
  context.set = true;
  context.stream = stream;
  return 0;
}

}  // namespace

bool is_of_blas(int status) {
  return status >= kFirstStatus;
}

const char* blas_describe(int status) {
  if (status == kNotLoaded) return cublas().why_not;
  return cublas().describe(static_cast<cublasStatus_t>(status - kFirstStatus));
}

int blas_create(void** context) {
  if (*cublas().why_not) return kNotLoaded;
  auto* const made = new (std::nothrow) Context;
  if (!made) return cudaErrorMemoryAllocation;
  int status = static_cast<int>(cudaMalloc(&made->workspace, kWorkspaceBytes));
  if (status == 0) status = status_of(cublas().create(&made->handle));
  if (status == 0)
    *context = made;
  else
    blas_destroy(made);
  return status;
}

int blas_destroy(void* context) {
  auto* const made = static_cast<Context*>(context);
  const int status = made->handle ? status_of(cublas().destroy(made->handle)) : 0;
  (void)cudaFree(made->workspace);
  delete made;
  return status;
}

// cuBLAS is column-major: it reads a row-major matrix as the matrix's transpose. So this function computes product^T =
// b^T a^T. cuBLAS's sizes are ints.
int blas_multiply(void* context, const float* a, int a_transposed, const float* b, int b_transposed, float* product,
                  std::size_t rows, std::size_t inner, std::size_t columns, CUstream_st* stream) {
  if (std::max({rows, inner, columns}) > INT_MAX) return status_of(CUBLAS_STATUS_INVALID_VALUE);
  auto& its = *static_cast<Context*>(context);
  if (const int status = use(its, stream)) return status;
  const float one = 1, zero = 0;
  const auto order = [](int transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  return status_of(cublas().sgemm(its.handle, order(b_transposed), order(a_transposed), int(columns), int(rows),
                                  int(inner), &one, b, int(b_transposed ? inner : columns), a,
                                  int(a_transposed ? rows : inner), &zero, product, int(columns)));
}
