/* Every function of named operations, called from C, by several ranks: with "through" as the argument they meet through
 * files in the folder that is the second one, and make two worlds one after the other; with "dies" rank 1 does. Ends
 * with 1 and a line for each expectation that failed. */
#define _POSIX_C_SOURCE 199309L /* kill, nanosleep */
#include <anello/anello.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static anello_agenda* agenda;
static int rank, size;

static anello_array array(void* data, const uint64_t* shape, size_t dimensions, anello_dtype dtype) {
  const anello_array made = {data, shape, dimensions, dtype};
  return made;
}

/* Waits like a program that looks at signals now and then. */
static anello_status settle(anello_named* operation) {
  anello_status status;
  do status = anello_named_wait(operation, 100);
  while (status == ANELLO_TIMED_OUT);
  EXPECT(anello_named_done(operation));
  return status;
}

static void reductions(void) {
  float a[4], b[4];
  int32_t c[3];
  uint64_t shape[2] = {2, 2}, three = 3;
  anello_array in[2], out;
  anello_named *first = NULL, *second = NULL;
  anello_named_options options = ANELLO_NAMED_OPTIONS_INIT;
  int i;
  for (i = 0; i < 4; i++) a[i] = (float)(rank + i);
  for (i = 0; i < 3; i++) c[i] = 10 * i;
  in[0] = array(a, shape, 2, ANELLO_F32);
  in[1] = array(c, &three, 1, ANELLO_I32);
  out = array(b, shape, 2, ANELLO_F32);
  options.postscale = 0.25;
  OK(anello_named_allreduce(agenda, "list", in, NULL, 2, ANELLO_SUM, &options, &first));
  EXPECT(anello_named_allreduce(agenda, "list", in, NULL, 2, ANELLO_SUM, &options, &second) == ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "allreduce 'list' is still in use") != NULL && second == NULL);
  OK(settle(first));
  anello_named_free(first);
  for (i = 0; i < 4; i++) EXPECT(a[i] == (float)(size * i + size * (size - 1) / 2) / 4);
  for (i = 0; i < 3; i++) EXPECT(c[i] == size * 10 * i / 4);
  options.postscale = 1;
  options.waits = 1;
  OK(anello_named_allreduce(agenda, "list", in, &out, 1, ANELLO_MAX, &options, &first));
  OK(settle(first));
  anello_named_free(first);
  for (i = 0; i < 4; i++) EXPECT(b[i] == a[i]);
}

/* DLPack's DLManagedTensor. */
typedef struct managed {
  void* data;
  int32_t device_type, device_id, dimensions;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
  void* context;
  void (*deleter)(struct managed*);
} managed;

static void outlives(anello_named* operation) {
  void* given = NULL;
  managed* tensor;
  EXPECT(anello_named_dlpack(operation, 1, &given) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_named_dlpack(operation, 0, NULL) == ANELLO_INVALID_ARGUMENT); /* leaks nothing: LeakSanitizer */
  OK(anello_named_dlpack(operation, 0, &given));
  anello_named_free(operation);
  tensor = (managed*)given;
  EXPECT(tensor->device_type == 1 && tensor->code == 1 && tensor->bits == 8 && tensor->lanes == 1);
  EXPECT(tensor->dimensions == 2 && tensor->shape[0] == size * (size - 1) / 2 && tensor->shape[1] == 2);
  if (size > 1) EXPECT(((uint8_t*)tensor->data)[2 * tensor->shape[0] - 1] == size - 1);
  tensor->deleter(tensor);
}

static void gathering(void) {
  uint8_t bytes[64];
  uint64_t shape[2], splits[16];
  const uint64_t* rows = NULL;
  anello_array mine, all;
  anello_named *gathered = NULL, *exchanged = NULL, *scattered = NULL, *sent = NULL;
  int i;
  memset(bytes, rank, sizeof bytes);
  shape[0] = (uint64_t)rank;
  shape[1] = 2;
  mine = array(bytes, shape, 2, ANELLO_U8);
  OK(anello_named_allgather(agenda, "g", &mine, 1, NULL, &gathered));
  OK(settle(gathered));
  OK(anello_named_output(gathered, 0, &all));
  OK(anello_named_rows(gathered, 0, &rows));
  EXPECT(all.dimensions == 2 && all.shape[0] == (uint64_t)(size * (size - 1) / 2) && all.shape[1] == 2);
  for (i = 0; i < size; i++) EXPECT(rows[i] == (uint64_t)i);
  if (size > 1) EXPECT(((uint8_t*)all.data)[2 * all.shape[0] - 1] == size - 1);
  EXPECT(anello_named_output(gathered, 1, &all) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_named_last(gathered, &i) == ANELLO_INVALID_ARGUMENT);

  shape[0] = 0;
  for (i = 0; i < size; i++) shape[0] += splits[i] = (uint64_t)i;
  OK(anello_named_alltoall(agenda, NULL, &mine, splits, NULL, &exchanged));
  OK(settle(exchanged));
  OK(anello_named_output(exchanged, 0, &all));
  OK(anello_named_rows(exchanged, 0, &rows));
  EXPECT(all.shape[0] == (uint64_t)(rank * size) && rows[0] == (uint64_t)rank);

  shape[0] = 2 * (uint64_t)size + 1;
  OK(anello_named_reduce_scatter(agenda, NULL, &mine, 1, ANELLO_MAX, NULL, &scattered));
  OK(settle(scattered));
  OK(anello_named_output(scattered, 0, &all));
  EXPECT(all.shape[0] == (rank == 0 ? 3U : 2U) && ((uint8_t*)all.data)[0] == size - 1);

  OK(anello_named_broadcast(agenda, NULL, &mine, 1, size - 1, NULL, &sent));
  OK(settle(sent));
  EXPECT(bytes[0] == size - 1);
  outlives(gathered);
  anello_named_free(exchanged);
  anello_named_free(scattered);
  anello_named_free(sent);
}

static void count_call(void* context, anello_status status, const char* message) {
  EXPECT(status == ANELLO_OK && message == NULL);
  __atomic_fetch_add((int*)context, 1, __ATOMIC_SEQ_CST);
}
static void note_mismatch(void* context, anello_status status, const char* message) {
  EXPECT(status == (size > 1 ? ANELLO_MISMATCH : ANELLO_OK) && (message != NULL) == (size > 1));
  __atomic_fetch_add((int*)context, 1, __ATOMIC_SEQ_CST);
}
static void until(int* calls, int expected) {
  const struct timespec pause = {0, 1000 * 1000};
  int looks = 0;
  while (__atomic_load_n(calls, __ATOMIC_SEQ_CST) < expected && looks++ < 60000) nanosleep(&pause, NULL);
  EXPECT(*calls == expected);
}

/* The program does not wait for the operations, and frees their handles at once. */
static void callbacks(void) {
  double value = 1;
  uint64_t count = rank == 0 ? 0 : 1;
  const anello_array mine = array(&value, NULL, 0, ANELLO_F64), odd = array(&value, &count, 1, ANELLO_F64);
  anello_named* operation = NULL;
  int called = 0;
  OK(anello_named_allreduce(agenda, "called", &mine, NULL, 1, ANELLO_SUM, NULL, &operation));
  OK(anello_named_when_done(operation, count_call, &called));
  EXPECT(anello_named_when_done(operation, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_named_when_done(NULL, count_call, &called) == ANELLO_INVALID_ARGUMENT);
  anello_named_free(operation);
  until(&called, 1);
  EXPECT(value == size);
  OK(anello_named_barrier(agenda, NULL, NULL, &operation));
  OK(settle(operation));
  OK(anello_named_when_done(operation, count_call, &called));
  EXPECT(called == 2);
  anello_named_free(operation);
  OK(anello_named_allreduce(agenda, "odd", &odd, NULL, 1, ANELLO_SUM, NULL, &operation));
  OK(anello_named_when_done(operation, note_mismatch, &called));
  anello_named_free(operation);
  until(&called, 3);
}

static void differences(anello_world* world) {
  static double values[4] = {1, 1, 1, 1}; /* the last operation may need them after the return */
  uint64_t count = rank == 0 ? 3 : 4;
  const anello_array mine = array(values, &count, 1, ANELLO_F64);
  anello_named *odd = NULL, *barrier = NULL, *join = NULL;
  const char* line = NULL;
  int last = -1;
  OK(anello_named_allreduce(agenda, "odd", &mine, NULL, 1, ANELLO_SUM, NULL, &odd));
  OK(anello_named_describe(odd, &line));
  EXPECT(strstr(line, "allreduce 'odd'") == line);
  EXPECT(settle(odd) == (size > 1 ? ANELLO_MISMATCH : ANELLO_OK));
  if (size > 1) EXPECT(strstr(anello_last_error(), "rank 0 has shape (3,), rank 1 has (4,)") != NULL);
  OK(anello_failure(world));
  anello_named_free(odd);
  OK(anello_named_barrier(agenda, NULL, NULL, &barrier));
  OK(settle(barrier));
  anello_named_free(barrier);
  OK(anello_named_join(agenda, NULL, &join));
  OK(settle(join));
  OK(anello_named_last(join, &last));
  EXPECT(last >= 0 && last < size);
  anello_named_free(join);
  /* A handle that the program does not wait for. */
  count = 4;
  OK(anello_named_allreduce(agenda, "dropped", &mine, NULL, 1, ANELLO_SUM, NULL, &odd));
  anello_named_free(odd);
  OK(anello_named_barrier(agenda, "end", NULL, &barrier));
  OK(settle(barrier));
  anello_named_free(barrier);
  OK(anello_barrier(anello_world_group(world), NULL, NULL));
}

static void use(anello_world* world) {
  rank = anello_rank(anello_world_group(world));
  size = anello_size(anello_world_group(world));
  OK(anello_agenda_create(anello_world_group(world), &agenda));
  reductions();
  gathering();
  callbacks();
  differences(world);
  anello_agenda_free(agenda);
  OK(anello_finish(world));
  anello_world_free(world);
}

/* An exchange through files. */
static void path_of(char* path, const void* folder, const char* key) {
  snprintf(path, 512, "%s/%s", (const char*)folder, key);
}
static int put(void* folder, const char* key, const char* value) {
  char path[512], unfinished[520];
  FILE* file;
  path_of(path, folder, key);
  snprintf(unfinished, sizeof unfinished, "%s.part", path);
  file = fopen(unfinished, "w");
  if (!file) return 1;
  fputs(value, file);
  return fclose(file) || rename(unfinished, path);
}
static int get(void* folder, const char* key, uint64_t limit_ms, char* value, size_t capacity) {
  char path[512];
  path_of(path, folder, key);
  for (; limit_ms > 10; limit_ms -= 10) {
    const struct timespec pause = {0, 10 * 1000 * 1000};
    FILE* const file = fopen(path, "r");
    if (!file) {
      nanosleep(&pause, NULL);
      continue;
    }
    if (!fgets(value, (int)capacity, file)) value[0] = '\0';
    return fclose(file);
  }
  return 1;
}

static void meet(char* folder) {
  anello_exchange exchange = ANELLO_EXCHANGE_INIT;
  anello_world* world = NULL;
  const char* const job = getenv("ANELLO_JOB");
  int times;
  EXPECT(anello_init_through(&exchange, NULL, &world) == ANELLO_INVALID_ARGUMENT && world == NULL);
  exchange.context = folder;
  exchange.put = put;
  exchange.get = get;
  exchange.rank = atoi(getenv("ANELLO_RANK"));
  exchange.size = atoi(getenv("ANELLO_SIZE"));
  exchange.name = job ? job : "files"; /* another name in each run, because files stay */
  for (times = 0; times < 2; times++) {
    world = NULL;
    OK(anello_init_through(&exchange, NULL, &world));
    if (!world) return;
    use(world);
  }
}

/* Rank 1 dies while every rank has operations that wait. */
static void lose_a_rank(void) {
  anello_world* world = NULL;
  anello_named *pending = NULL, *later = NULL;
  anello_status status;
  double value = 1;
  const anello_array mine = array(&value, NULL, 0, ANELLO_F64);
  OK(anello_init(NULL, &world));
  if (!world) return;
  OK(anello_agenda_create(anello_world_group(world), &agenda));
  rank = anello_rank(anello_world_group(world));
  OK(anello_named_allreduce(agenda, "met", &mine, NULL, 1, ANELLO_SUM, NULL, &pending));
  OK(settle(pending));
  anello_named_free(pending);
  if (rank == 1) kill(getpid(), SIGKILL);
  pending = NULL;
  status = anello_named_allreduce(agenda, "pending", &mine, NULL, 1, ANELLO_SUM, NULL, &pending);
  if (status == ANELLO_OK) status = settle(pending); /* otherwise this rank has seen the failure already */
  EXPECT(status == ANELLO_RANK_DEAD && anello_last_error_rank() == 1);
  if (failures == 0) printf("told who died: %s\n", anello_last_error());
  EXPECT(anello_named_barrier(agenda, NULL, NULL, &later) == ANELLO_RANK_DEAD && later == NULL);
  anello_named_free(pending);
  anello_agenda_free(agenda);
  anello_world_free(world);
}

int main(int count, char** arguments) {
  anello_world* world = NULL;
  if (count == 3 && strcmp(arguments[1], "through") == 0) {
    meet(arguments[2]);
    return failures > 0;
  }
  if (count == 2 && strcmp(arguments[1], "dies") == 0) {
    lose_a_rank();
    return failures > 0;
  }
  OK(anello_init(NULL, &world));
  if (!world) return 1;
  use(world);
  return failures > 0;
}
