// Matrix products with cuBLAS. cuBLAS is loaded when the first context is made, because it takes 600 MB of addresses
// and casts do not need it.
#pragma once
#include <cstddef>

struct CUstream_st;

// These functions are described in kernel_table.h. blas_describe() describes a status that is not CUDA's.
int blas_create(void** context);
int blas_destroy(void* context);
int blas_multiply(void* context, const float* a, int a_transposed, const float* b, int b_transposed, float* product,
                  std::size_t rows, std::size_t inner, std::size_t columns, CUstream_st* stream);
bool is_of_blas(int status);
const char* blas_describe(int status);
