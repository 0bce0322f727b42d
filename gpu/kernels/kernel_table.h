/* Arithmetic on a GPU, for the engine (casts to 16 bits) and the trainer: a table of C functions, filled by the
   plugin libanello_kernels.so (kernels.cu and cuBLAS), or by a test's fake. Each queues work on the stream, on the
   calling thread's current device, and returns 0 or a status that describe() puts in words. Matrices are row-major
   floats; where counts are zero nothing is queued. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* CUstream_st* is cudaStream_t */

#define ANELLO_KERNEL_TABLE_VERSION 3
#define ANELLO_SQUARE_PARTS 1024

/* The sums of a batch, on the device; kernels add to them. */
typedef struct AnelloScore {
  double loss;
  uint64_t correct;
} AnelloScore;

/* Elements to be converted from one place to another. */
typedef struct AnelloPart {
  const void* from;
  void* to;
  size_t count;
} AnelloPart;

typedef struct AnelloKernelTable {
  uint32_t version;
  const char* (*describe)(int status);

  /* Every element times the factor, in another type, rounded to nearest even; float types of anello::DType. */
  int (*cast)(const AnelloPart* parts, size_t part_count, int from_type, int to_type, double factor,
              struct CUstream_st* stream);

  int (*create)(void** context); /* for multiply(), of the current device; loads cuBLAS */
  int (*destroy)(void* context);

  /* product (rows x columns) = a (rows x inner) times b (inner x columns). A transposed matrix is stored with rows and
     columns exchanged. */
  int (*multiply)(void* context, const float* a, int a_transposed, const float* b, int b_transposed, float* product,
                  size_t rows, size_t inner, size_t columns, struct CUstream_st* stream);
  /* Row i becomes scale * (pixel - shift) for the pixels of sample indices[i], whose label goes to row_labels[i]. */
  int (*gather)(const uint8_t* pixels, const uint8_t* labels, const uint32_t* indices, float shift, float scale,
                float* images, uint8_t* row_labels, size_t rows, size_t columns, struct CUstream_st* stream);
  int (*add_to_rows)(const float* row, float* to, size_t rows, size_t columns, struct CUstream_st* stream);
  int (*sum_rows)(const float* from, float* row, size_t rows, size_t columns, struct CUstream_st* stream);
  int (*relu)(const float* in, float* out, size_t count, struct CUstream_st* stream);
  int (*relu_gradient)(const float* out, const float* out_gradient, float* in_gradient, size_t count,
                       struct CUstream_st* stream);
  int (*cross_entropy)(const float* scores, const uint8_t* labels, float* gradient, AnelloScore* score, size_t rows,
                       size_t columns, struct CUstream_st* stream);

  int (*add)(const float* from, float* to, size_t count, struct CUstream_st* stream);
  int (*scale)(float factor, float* values, size_t count, struct CUstream_st* stream);
  /* Adds the sum of the squares to sum[0], always in the same order. Uses the ANELLO_SQUARE_PARTS numbers after it as
     scratch. */
  int (*square_sum)(const float* values, double* sum, size_t count, struct CUstream_st* stream);
  /* velocity = momentum * velocity + gradient; parameters -= rate * velocity */
  int (*momentum_step)(float* parameters, const float* gradient, float* velocity, float rate, float momentum,
                       size_t count, struct CUstream_st* stream);
  /* mean and square follow the gradient and its square; parameters -= step * mean / (sqrt(square) + epsilon) */
  int (*adam_step)(float* parameters, const float* gradient, float* mean, float* square, float step, float beta1,
                   float beta2, float epsilon, size_t count, struct CUstream_st* stream);
} AnelloKernelTable;

/* The plugin's one symbol. */
__attribute__((visibility("default"))) const AnelloKernelTable* anello_kernel_table(void);

#ifdef __cplusplus
}
#endif
