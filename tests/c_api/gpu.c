/* Every function of the C API for GPU memory, called from C on the fake GPU, with the expected backend as its argument;
 * "none" where there is no GPU. Ends with 1 and a line for each expectation that failed. */
#include <anello/gpu.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "gpu/table.h"

enum { kCount = 12 };
typedef struct CUstream_st* stream_handle;
typedef struct {
  anello_gpu_group* gpus;
  const AnelloGpuTable* device;
  stream_handle stream;
  int rank, size;
  float *in, *out;                    /* on the GPU */
  float given[kCount], found[kCount]; /* on the host */
} context;

static anello_input input(const context* c, size_t count) {
  const anello_input made = {c->in, count, ANELLO_F32};
  return made;
}
static anello_tensor tensor(float* data, size_t count) {
  const anello_tensor made = {data, count, ANELLO_F32};
  return made;
}

static void fill(context* c) {
  int i;
  for (i = 0; i < kCount; i++) c->given[i] = (float)(c->rank * 100 + i);
  EXPECT(c->device->copy(c->in, c->given, sizeof c->given, c->stream) == 0);
  EXPECT(c->device->zero(c->out, sizeof c->found, c->stream) == 0);
}
static void read_back(context* c, const float* from) {
  EXPECT(c->device->copy(c->found, from, sizeof c->found, c->stream) == 0);
  OK(anello_gpu_synchronize(c->gpus, c->stream));
}
/* The sum of rank * 100 + i over all ranks. */
static float sum(const context* c, int i) {
  return (float)(c->size * i + 50 * c->size * (c->size - 1));
}

static void reductions(context* c) {
  anello_options options = ANELLO_OPTIONS_INIT;
  anello_tensor list[2];
  const size_t n = (size_t)c->size;
  fill(c);
  OK(anello_gpu_allreduce(c->gpus, input(c, kCount), tensor(c->out, kCount), ANELLO_SUM, c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[0] == sum(c, 0) && c->found[kCount - 1] == sum(c, kCount - 1));
  fill(c);
  options.name = "scaled";
  options.postscale = 2;
  OK(anello_gpu_allreduce(c->gpus, input(c, 5), tensor(c->in, 5), ANELLO_SUM, c->stream, &options));
  read_back(c, c->in);
  EXPECT(c->found[4] == 2 * sum(c, 4) && c->found[5] == (float)(c->rank * 100 + 5));
  fill(c);
  list[0] = tensor(c->in, 3);
  list[1] = tensor(c->in + 5, 2);
  OK(anello_gpu_allreduce_list(c->gpus, list, 2, ANELLO_MAX, c->stream, NULL));
  read_back(c, c->in);
  EXPECT(c->found[2] == (float)((c->size - 1) * 100 + 2) && c->found[3] == (float)(c->rank * 100 + 3));
  fill(c);
  OK(anello_gpu_reduce(c->gpus, input(c, 5), tensor(c->out, 5), c->size - 1, ANELLO_SUM, c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[4] == (c->rank == c->size - 1 ? sum(c, 4) : 0));
  fill(c);
  OK(anello_gpu_reduce_scatter(c->gpus, input(c, 4 * n), tensor(c->out, 4), ANELLO_SUM, c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[3] == sum(c, 4 * c->rank + 3));
}

/* A call as a record: carried out on the GPU, and refused if it is of no kind. */
static void records(context* c) {
  anello_call call = ANELLO_CALL_INIT;
  fill(c);
  call.kind = ANELLO_REDUCE;
  call.root = c->size - 1;
  call.input = input(c, 5);
  call.output = tensor(c->out, 5);
  OK(anello_gpu_carry_out(c->gpus, &call, c->stream));
  read_back(c, c->out);
  EXPECT(c->found[4] == (c->rank == c->size - 1 ? sum(c, 4) : 0));
  call.list = &call.output;
  call.list_size = 1;
  EXPECT(anello_gpu_carry_out(c->gpus, &call, c->stream) == ANELLO_INVALID_ARGUMENT);
  call.list_size = 0;
  call.list = NULL;
  call.kind = 0;
  EXPECT(anello_gpu_carry_out(c->gpus, &call, c->stream) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_gpu_carry_out(c->gpus, NULL, c->stream) == ANELLO_INVALID_ARGUMENT);
}

/* Lists without tensors, and with tensors without elements. */
static void empty_lists(context* c) {
  const anello_tensor none = tensor(NULL, 0);
  anello_options options = ANELLO_OPTIONS_INIT;
  OK(anello_gpu_broadcast_list(c->gpus, NULL, 0, 0, c->stream, NULL));
  OK(anello_gpu_allreduce_list(c->gpus, NULL, 0, ANELLO_SUM, c->stream, NULL));
  options.postscale = 2;
  OK(anello_gpu_allreduce_list(c->gpus, &none, 1, ANELLO_SUM, c->stream, &options));
  OK(anello_gpu_synchronize(c->gpus, c->stream));
}

static void movements(context* c) {
  const size_t n = (size_t)c->size;
  const uint64_t one_each[] = {1, 1};
  anello_tensor list[2];
  fill(c);
  list[0] = tensor(c->in, 3);
  list[1] = tensor(c->in + 5, 2);
  OK(anello_gpu_broadcast_list(c->gpus, list, 2, 0, c->stream, NULL));
  OK(anello_gpu_broadcast(c->gpus, tensor(c->in + 8, 2), c->size - 1, c->stream, NULL));
  read_back(c, c->in);
  EXPECT(c->found[6] == 6 && c->found[9] == (float)((c->size - 1) * 100 + 9));
  fill(c);
  OK(anello_gpu_allgather(c->gpus, input(c, 2), tensor(c->out, 2 * n), c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[2 * n - 1] == (float)((c->size - 1) * 100 + 1));
  fill(c);
  OK(anello_gpu_gather(c->gpus, input(c, 2), tensor(c->out, 2 * n), 0, c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[2 * n - 1] == (c->rank == 0 ? (float)((c->size - 1) * 100 + 1) : 0));
  fill(c);
  OK(anello_gpu_scatter(c->gpus, input(c, 3 * n), tensor(c->out, 3), 0, c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[2] == (float)(3 * c->rank + 2));
  fill(c);
  OK(anello_gpu_alltoall(c->gpus, input(c, 2 * n), tensor(c->out, 2 * n), NULL, NULL, c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[2 * n - 1] == (float)((c->size - 1) * 100 + 2 * c->rank + 1));
  fill(c);
  OK(anello_gpu_alltoall(c->gpus, input(c, n), tensor(c->out, n), one_each, one_each, c->stream, NULL));
  read_back(c, c->out);
  EXPECT(c->found[n - 1] == (float)((c->size - 1) * 100 + c->rank));
  if (c->size == 2) {
    const int other = 1 - c->rank;
    fill(c);
    OK(anello_gpu_exchange(c->gpus, input(c, 3), other, tensor(c->out, 3), other, c->stream, NULL));
    if (c->rank == 0)
      OK(anello_gpu_send(c->gpus, input(c, 2), 1, c->stream, NULL));
    else
      OK(anello_gpu_recv(c->gpus, tensor(c->out + 4, 2), 0, c->stream, NULL));
    read_back(c, c->out);
    EXPECT(c->found[2] == (float)(other * 100 + 2) && c->found[5] == (c->rank == 1 ? 1 : 0));
  }
  OK(anello_gpu_barrier(c->gpus, c->stream, NULL));
}

static void gradients(context* c) {
  anello_gradient list[2];
  anello_gpu_gradients* all = NULL;
  anello_step_stats stats = ANELLO_STEP_STATS_INIT;
  anello_gradient_options options = ANELLO_GRADIENT_OPTIONS_INIT;
  memset(list, 0, sizeof list);
  list[0].name = "first";
  list[0].tensor = tensor(c->in, 4);
  list[1].name = "second";
  list[1].tensor = tensor(c->in + 4, 4);
  fill(c);
  OK(anello_gpu_gradients_create(c->gpus, list, 2, c->stream, NULL, &all));
  OK(anello_gpu_gradients_begin(all, 2));
  OK(anello_gpu_gradients_ready(all, 1));
  OK(anello_gpu_gradients_ready(all, 0));
  EXPECT(anello_gpu_gradients_ready(all, 2) == ANELLO_INVALID_ARGUMENT);
  OK(anello_gpu_gradients_finish(all, &stats));
  read_back(c, c->in);
  EXPECT(c->found[7] == 2 * sum(c, 7) / (float)c->size && c->found[8] == c->given[8]);
  anello_gpu_gradients_free(all);
  options.max_norm = 1;
  EXPECT(anello_gpu_gradients_create(c->gpus, list, 2, c->stream, &options, &all) == ANELLO_UNSUPPORTED);
}

static void registered(context* c) {
  anello_gpu_memory *made = NULL, *told = NULL;
  if (c->size > 1) { /* staged through host memory here */
    EXPECT(anello_gpu_allocate(c->gpus, 400, &made) == ANELLO_UNSUPPORTED && made == NULL);
    EXPECT(strstr(anello_last_error(), "with NCCL only") != NULL);
    return;
  }
  OK(anello_gpu_allocate(c->gpus, 400, &made));
  OK(anello_gpu_register(c->gpus, anello_gpu_memory_data(made), 400, &told));
  EXPECT(anello_gpu_memory_data(told) == anello_gpu_memory_data(made));
  EXPECT(anello_gpu_register(c->gpus, NULL, 400, &told) == ANELLO_INVALID_ARGUMENT);
  anello_gpu_memory_free(told);
  anello_gpu_memory_free(made);
  anello_gpu_memory_free(NULL);
}

/* None of these calls ends the world. */
static void refusals(context* c) {
  stream_handle per_thread = (stream_handle)2;
  const anello_input host = {c->given, 2, ANELLO_F32};
  EXPECT(anello_gpu_allreduce(NULL, input(c, 2), tensor(c->out, 2), ANELLO_SUM, c->stream, NULL) ==
         ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_gpu_allreduce(c->gpus, input(c, 2), tensor(c->out, 2), ANELLO_SUM, per_thread, NULL) ==
         ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "cudaStreamPerThread") != NULL);
  EXPECT(anello_gpu_allreduce(c->gpus, host, tensor(c->out, 2), ANELLO_SUM, c->stream, NULL) ==
         ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "same memory") != NULL);
  EXPECT(anello_gpu_allreduce_list(c->gpus, NULL, 2, ANELLO_SUM, c->stream, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_gpu_broadcast(c->gpus, tensor(c->in, 2), c->size, c->stream, NULL) == ANELLO_INVALID_ARGUMENT);
  OK(anello_gpu_barrier(c->gpus, c->stream, NULL));
}

static void groups(anello_world* world, context* c) {
  anello_gpu_options options = ANELLO_GPU_OPTIONS_INIT;
  anello_gpu_group *part = NULL, *same = NULL;
  options.device = 99;
  EXPECT(anello_gpu_create(world, &options, &part) == ANELLO_UNSUPPORTED && part == NULL);
  EXPECT(strstr(anello_last_error(), "GPU 99 was asked for") != NULL);
  options.device = c->rank;
  options.ranks = anello_world_group(world);
  OK(anello_gpu_create(world, &options, &same));
  EXPECT(anello_gpu_device(same) == c->rank);
  OK(anello_gpu_split(same, c->rank, 0, &part));
  EXPECT(anello_size(anello_gpu_ranks(part)) == 1 && strcmp(anello_gpu_backend(part), "single") == 0);
  anello_gpu_free(part);
  anello_gpu_free(same);
  anello_gpu_free(NULL);
}

static void on_the_gpu(anello_world* world, const char* backend) {
  context c;
  memset(&c, 0, sizeof c);
  OK(anello_gpu_create(world, NULL, &c.gpus));
  if (!c.gpus) return;
  EXPECT(strcmp(anello_gpu_backend(c.gpus), backend) == 0);
  EXPECT(anello_gpu_reason(c.gpus)[0] != '\0');
  c.rank = anello_rank(anello_gpu_ranks(c.gpus));
  c.size = anello_size(anello_gpu_ranks(c.gpus));
  c.device = anello_gpu_table();
  EXPECT(c.device->set_device(anello_gpu_device(c.gpus)) == 0);
  EXPECT(c.device->stream_create(&c.stream, 0) == 0);
  EXPECT(c.device->memory_create((void**)&c.in, sizeof c.given) == 0);
  EXPECT(c.device->memory_create((void**)&c.out, sizeof c.given) == 0);
  reductions(&c);
  records(&c);
  empty_lists(&c);
  movements(&c);
  gradients(&c);
  registered(&c);
  refusals(&c);
  groups(world, &c);
  anello_gpu_free(c.gpus);
  c.device->memory_destroy(c.in);
  c.device->memory_destroy(c.out);
  c.device->stream_destroy(c.stream);
}

int main(int argc, char** argv) {
  anello_world* world = NULL;
  const char* expected = argc > 1 ? argv[1] : "single";
  if (anello_init(NULL, &world) != ANELLO_OK) {
    fprintf(stderr, "%s\n", anello_last_error());
    return 1;
  }
  if (strcmp(expected, "none") == 0) {
    anello_gpu_group* gpus = NULL;
    EXPECT(anello_gpu_create(world, NULL, &gpus) == ANELLO_UNSUPPORTED && gpus == NULL);
    EXPECT(strstr(anello_last_error(), "libanello_gpu.so") != NULL);
  } else {
    on_the_gpu(world, expected);
  }
  OK(anello_finish(world));
  anello_world_free(world);
  return failures > 0;
}
