/* Every function of the C API, called from C, with a folder for files as its argument. Ends with 1 and a line for each
 * expectation that failed. */
#include <anello/anello.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

enum { kMax = 64 };
typedef struct {
  anello_group* group;
  int rank, size;
  float in[kMax], out[kMax];
} context;

static anello_input input(const float* data, size_t count) {
  const anello_input made = {data, count, ANELLO_F32};
  return made;
}
static anello_tensor tensor(float* data, size_t count) {
  const anello_tensor made = {data, count, ANELLO_F32};
  return made;
}

static void fill(context* c) {
  int i;
  for (i = 0; i < kMax; i++) {
    c->in[i] = (float)(c->rank * 100 + i);
    c->out[i] = -1;
  }
}
/* The sum of rank * 100 + i over all ranks. */
static float sum(const context* c, int i) {
  return (float)(c->size * i + 50 * c->size * (c->size - 1));
}

/* Waits, if there is something to wait for. */
static void settle(anello_work* work) {
  if (!work) return;
  OK(anello_work_wait(work));
  EXPECT(anello_work_done(work));
  OK(anello_work_wait_for(work, 0));
  anello_work_free(work);
}

static void reductions(context* c, int started) {
  anello_work* work = NULL;
  anello_work** handle = started ? &work : NULL;
  anello_options options = ANELLO_OPTIONS_INIT;
  const size_t n = (size_t)c->size;
  size_t i;
  fill(c);
  OK(anello_allreduce(c->group, input(c->in, 10), tensor(c->out, 10), ANELLO_SUM, NULL, handle));
  settle(work);
  for (i = 0; i < 10; i++) EXPECT(c->out[i] == sum(c, (int)i));
  fill(c);
  options.name = "scaled";
  options.algorithm = "tree";
  options.slab_bytes = (int64_t)1 << 40;
  options.prescale = 2;
  options.postscale = 0.5;
  OK(anello_allreduce(c->group, input(c->in, 10), tensor(c->in, 10), ANELLO_SUM, &options, handle));
  settle(work);
  EXPECT(c->in[9] == sum(c, 9));
  fill(c);
  OK(anello_reduce(c->group, input(c->in, 5), tensor(c->out, 5), c->size - 1, ANELLO_AVERAGE, NULL, handle));
  settle(work);
  EXPECT(c->out[4] == (c->rank == c->size - 1 ? sum(c, 4) / (float)c->size : -1));
  fill(c);
  OK(anello_reduce_scatter(c->group, input(c->in, 4 * n), tensor(c->out, 4), ANELLO_SUM, NULL, handle));
  settle(work);
  EXPECT(c->out[3] == sum(c, 4 * c->rank + 3));
  {
    anello_tensor list[2];
    fill(c);
    list[0] = tensor(c->in, 3);
    list[1] = tensor(c->in + 10, 5);
    OK(anello_allreduce_list(c->group, list, 2, ANELLO_SUM, NULL, handle));
    settle(work);
    EXPECT(c->in[2] == sum(c, 2) && c->in[3] == (float)(c->rank * 100 + 3) && c->in[14] == sum(c, 14));
    fill(c);
    OK(anello_broadcast_list(c->group, list, 2, 0, NULL, handle));
    settle(work);
    EXPECT(c->in[2] == 2 && c->in[3] == (float)(c->rank * 100 + 3) && c->in[14] == 14);
  }
}

static void movements(context* c, int started) {
  anello_work* work = NULL;
  anello_work** handle = started ? &work : NULL;
  const size_t n = (size_t)c->size;
  const int next = (c->rank + 1) % c->size, previous = (c->rank + c->size - 1) % c->size;
  anello_options parts = ANELLO_OPTIONS_INIT;
  uint64_t counts[kMax];
  size_t i, whole = 0, before = 0;
  for (i = 0; i < n; i++) {
    counts[i] = i + 1;
    whole += i + 1;
    if (i < (size_t)c->rank) before += i + 1;
  }
  parts.counts = counts;
  parts.counts_size = n;
  fill(c);
  OK(anello_broadcast(c->group, tensor(c->in, 5), c->size - 1, NULL, handle));
  settle(work);
  EXPECT(c->in[4] == (float)((c->size - 1) * 100 + 4));
  fill(c);
  OK(anello_allgather(c->group, input(c->in, 2), tensor(c->out, 2 * n), NULL, handle));
  settle(work);
  EXPECT(c->out[2 * n - 1] == (float)((c->size - 1) * 100 + 1));
  fill(c);
  OK(anello_allgather(c->group, input(c->in, (size_t)c->rank + 1), tensor(c->out, whole), &parts, handle));
  settle(work);
  EXPECT(c->out[whole - 1] == (float)((c->size - 1) * 100 + c->size - 1));
  fill(c);
  OK(anello_gather(c->group, input(c->in, 2), tensor(c->out, 2 * n), 0, NULL, handle));
  settle(work);
  EXPECT(c->out[2 * n - 1] == (c->rank == 0 ? (float)((c->size - 1) * 100 + 1) : -1));
  fill(c);
  OK(anello_scatter(c->group, input(c->in, whole), tensor(c->out, (size_t)c->rank + 1), 0, &parts, handle));
  settle(work);
  EXPECT(c->out[c->rank] == (float)(before + (size_t)c->rank));
  fill(c);
  OK(anello_alltoall(c->group, input(c->in, 2 * n), tensor(c->out, 2 * n), NULL, NULL, NULL, handle));
  settle(work);
  EXPECT(c->out[2 * n - 1] == (float)((c->size - 1) * 100 + 2 * c->rank + 1));
  {
    uint64_t sends[kMax], receives[kMax];
    for (i = 0; i < n; i++) {
      sends[i] = i + 1;
      receives[i] = (uint64_t)c->rank + 1;
    }
    fill(c);
    OK(anello_alltoall(c->group, input(c->in, whole), tensor(c->out, n * ((size_t)c->rank + 1)), sends, receives, NULL,
                         handle));
    settle(work);
    EXPECT(c->out[0] == (float)before);
  }
  if (c->size > 1) {
    anello_work* sent = NULL;
    int arrived = 0;
    fill(c);
    OK(anello_probe(c->group, previous, &arrived));
    OK(anello_send(c->group, input(c->in, 7), next, NULL, &sent));
    while (!arrived) OK(anello_probe(c->group, previous, &arrived));
    OK(anello_recv(c->group, tensor(c->out, 7), previous, NULL, handle));
    settle(work);
    settle(sent);
    EXPECT(c->out[6] == (float)(previous * 100 + 6));
  }
  OK(anello_barrier(c->group, NULL, handle));
  settle(work);
}

static void count_call(void* context_of_it, anello_status status, const char* message) {
  if (status == ANELLO_OK && !message) ++*(int*)context_of_it;
}

static void groups_and_work(context* c) {
  anello_group *half = NULL, *pair = NULL;
  anello_work* work = NULL;
  context in_half = *c;
  int called = 0, members[2] = {0, 1};
  OK(anello_group_split(c->group, c->rank % 2, -c->rank, &half));
  in_half.group = half;
  in_half.rank = anello_rank(half);
  in_half.size = anello_size(half);
  EXPECT(anello_world_rank(half, in_half.rank) == c->rank && anello_rank_of(half, c->rank) == in_half.rank);
  EXPECT(anello_world_rank(half, 99) == -1 && anello_rank_of(half, c->rank + 1) == -1);
  reductions(&in_half, 0);
  movements(&in_half, 1);
  anello_group_free(half);
  anello_group_free(NULL);
  if (c->size > 1 && c->rank < 2) {
    OK(anello_group_create(c->group, members, 2, &pair));
    OK(anello_barrier(pair, NULL, NULL));
    OK(anello_barrier(pair, NULL, &work));
    anello_group_free(pair); /* operations that were started go on */
    OK(anello_work_wait(work));
    anello_work_free(work);
  }
  EXPECT(anello_group_create(c->group, members, 0, &pair) == ANELLO_INVALID_ARGUMENT);
  OK(anello_barrier(c->group, NULL, &work));
  OK(anello_work_when_done(work, count_call, &called));
  OK(anello_work_wait(work));
  anello_work_free(work);
  anello_work_free(NULL);
  OK(anello_barrier(c->group, NULL, NULL)); /* after the callback */
  EXPECT(called == 1);
}

static void waits_and_tokens(context* c) {
  anello_work* works[3];
  anello_options options = ANELLO_OPTIONS_INIT;
  double mean = -1;
  int k;
  fill(c);
  for (k = 0; k < 3; k++) {
    options.consistency_token = (uint64_t)k;
    OK(anello_allreduce(c->group, input(c->in + 10 * k, 10), tensor(c->out + 10 * k, 10), ANELLO_SUM, &options, works + k));
  }
  OK(anello_wait_all(works, 3));
  OK(anello_wait_all(NULL, 0));
  for (k = 0; k < 3; k++) {
    EXPECT(anello_work_done(works[k]) && c->out[10 * k] == sum(c, 10 * k));
    anello_work_free(works[k]);
  }
  works[1] = NULL;
  EXPECT(anello_wait_all(works + 1, 1) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_wait_all(NULL, 1) == ANELLO_INVALID_ARGUMENT);
  OK(anello_average(c->group, (double)c->rank, &mean));
  EXPECT(mean == (c->size - 1) / 2.0);
  EXPECT(anello_average(c->group, 1.0, NULL) == ANELLO_INVALID_ARGUMENT);
}

/* The pointer to the last error stays valid, and the next failure overwrites the text. */
static void last_error_in_place(context* c) {
  char name[6000];
  const char* first;
  EXPECT(anello_broadcast(c->group, tensor(NULL, 3), 0, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  first = anello_last_error();
  EXPECT(anello_barrier(NULL, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(first == anello_last_error() && strcmp(first, "the group is NULL") == 0);
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = 0;
  EXPECT(anello_phase_begin(NULL, name, NULL) == ANELLO_INVALID_ARGUMENT && first == anello_last_error());
}

static void errors(context* c) {
  anello_options options = ANELLO_OPTIONS_INIT;
  anello_world* none = NULL;
  anello_config config = ANELLO_CONFIG_INIT;
  const char* settings[1] = {"ANELLO_NONSENSE=1"};
  const char* host = NULL;
  EXPECT(anello_allreduce(c->group, input(c->in, 3), tensor(c->out, 4), ANELLO_SUM, NULL, NULL) ==
         ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "allreduce: the input has 3 elements but the output 4") != NULL);
  EXPECT(anello_last_error_rank() == -1);
  EXPECT(anello_allreduce(NULL, input(c->in, 3), tensor(c->out, 3), ANELLO_SUM, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_broadcast(c->group, tensor(NULL, 3), 0, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  options.slab_bytes = -2;
  EXPECT(anello_allreduce(c->group, input(c->in, 3), tensor(c->out, 3), ANELLO_SUM, &options, NULL) ==
         ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "slab_bytes must be 0 (the whole buffer at once) or positive, not -2") != NULL);
  options.slab_bytes = ANELLO_FROM_SETTINGS;
  options.algorithm = "ring";
  EXPECT(anello_broadcast(c->group, tensor(c->in, 3), 0, &options, NULL) == ANELLO_INVALID_ARGUMENT);
  options.struct_size = 0;
  EXPECT(anello_barrier(c->group, &options, NULL) == ANELLO_INVALID_ARGUMENT);
  config.settings = settings;
  config.settings_size = 1;
  EXPECT(anello_init(&config, &none) == ANELLO_CONFIGURATION && none == NULL);
  EXPECT(strstr(anello_last_error(), "there is no setting ANELLO_NONSENSE") != NULL);
  EXPECT(anello_host(NULL, 0, &host) == ANELLO_INVALID_ARGUMENT && host == NULL);
}

static void names(void) {
  void* memory = NULL;
  EXPECT(strcmp(anello_status_name(ANELLO_RANK_DEAD), "rank_dead") == 0);
  EXPECT(strcmp(anello_status_name(ANELLO_OK), "ok") == 0);
  EXPECT(strcmp(anello_dtype_name(ANELLO_BF16), "bf16") == 0 && anello_dtype_size(ANELLO_F64) == 8);
  EXPECT(anello_dtype_size((anello_dtype)77) == 0 && anello_dtype_size((anello_dtype)(256 + ANELLO_F32)) == 0);
  EXPECT(strcmp(anello_op_name(ANELLO_PRODUCT), "product") == 0 && anello_op_name((anello_op)256)[0] == '?');
  EXPECT(strlen(anello_version()) > 0);
  OK(anello_allocate(1 << 20, &memory));
  EXPECT(memory != NULL);
  memset(memory, 1, 1 << 20);
  anello_deallocate(memory);
  anello_deallocate(NULL);
}

static void gradients(context* c) {
  anello_gradient list[2];
  anello_gradient_options options = ANELLO_GRADIENT_OPTIONS_INIT;
  anello_step_stats step = ANELLO_STEP_STATS_INIT;
  anello_gradients* all = NULL;
  const uint64_t shape[2] = {2, 3};
  float weight[6], bias[3];
  int k, round;
  list[0].name = "weight";
  list[0].tensor = tensor(weight, 6);
  list[0].shape = shape;
  list[0].dimensions = 2;
  list[1].name = "bias";
  list[1].tensor = tensor(bias, 3);
  list[1].shape = NULL;
  list[1].dimensions = 0;
  options.max_norm = 1e6;
  OK(anello_gradients_create(c->group, list, 2, &options, &all));
  for (round = 0; round < 2; round++) {
    OK(anello_gradients_begin(all, 1.0));
    for (k = 0; k < 3; k++) bias[k] = (float)c->rank;
    OK(anello_gradients_ready(all, 1));
    for (k = 0; k < 6; k++) weight[k] = 2 * (float)c->rank;
    OK(anello_gradients_ready(all, 0));
    EXPECT(anello_gradients_ready(all, 0) == ANELLO_INVALID_ARGUMENT);
    OK(anello_gradients_finish(all, round == 0 ? &step : NULL));
    EXPECT(weight[5] == (float)(c->size - 1) && bias[2] == (float)(c->size - 1) / 2);
  }
  EXPECT(c->size == 1 || (step.norm > 0 && step.communicated_ns > 0));
  anello_gradients_free(all);
  anello_gradients_free(NULL);
  options.unannounced = ANELLO_UNANNOUNCED_ZERO;
  OK(anello_gradients_create(c->group, list, 2, &options, &all));
  OK(anello_gradients_begin(all, 1.0));
  for (k = 0; k < 3; k++) bias[k] = 3;
  OK(anello_gradients_ready(all, 1));
  OK(anello_gradients_finish(all, NULL));
  EXPECT(weight[5] == 0 && bias[2] == 3);
  anello_gradients_free(all);
  options.unannounced = 2;
  EXPECT(anello_gradients_create(c->group, list, 2, &options, &all) == ANELLO_INVALID_ARGUMENT);
  {
    /* An older program's struct ends before `unannounced`. The bytes behind its last member are not read. */
    options.struct_size = offsetof(anello_gradient_options, unannounced);
    OK(anello_gradients_create(c->group, list, 2, &options, &all));
    EXPECT(offsetof(anello_gradient_options, unannounced) == offsetof(anello_gradient_options, accumulation_passes) + 8);
    anello_gradients_free(all);
  }
  list[1].name = "weight";
  all = NULL;
  EXPECT(anello_gradients_create(c->group, list, 2, NULL, &all) == ANELLO_INVALID_ARGUMENT && all == NULL);
  EXPECT(anello_gradients_create(c->group, NULL, 2, NULL, &all) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_gradients_begin(NULL, 1.0) == ANELLO_INVALID_ARGUMENT);
  bias[0] = 1, bias[1] = 1e-9f, weight[0] = weight[1] = 0;
  OK(anello_round_with_feedback(tensor(bias, 2), 0.5, ANELLO_F16, weight));
  EXPECT(bias[0] == 0.5f && bias[1] == 0 && weight[0] == 0 && weight[1] == 0.5f * 1e-9f);
  EXPECT(anello_round_with_feedback(tensor(bias, 2), 1.0, ANELLO_F32, weight) == ANELLO_INVALID_ARGUMENT);
}

static void diagnosis(context* c, anello_world* world, const char* folder) {
  anello_counters counters = ANELLO_COUNTERS_INIT;
  anello_phase* phase = NULL;
  const char* layout = NULL;
  char path[4096];
  OK(anello_get_counters(world, &counters));
  EXPECT(counters.operations > 10 && counters.busy_ns > 0 && counters.tensor_bytes > 0);
  EXPECT(c->size == 1 || (counters.sent_bytes > 0 && counters.received_bytes > 0));
  counters.struct_size = offsetof(anello_counters, tensor_bytes); /* the struct of an older program */
  counters.operations = counters.tensor_bytes = 0;
  OK(anello_get_counters(world, &counters));
  EXPECT(counters.operations > 10 && counters.tensor_bytes == 0);
  counters.struct_size = 0;
  EXPECT(anello_get_counters(world, &counters) == ANELLO_INVALID_ARGUMENT);
  OK(anello_layout(world, &layout));
  EXPECT(layout != NULL && layout[0] == '0' + c->size);
  EXPECT(anello_write_flight(world, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_write_flight(world, "/dev/null/file") == ANELLO_FILE);
  EXPECT(anello_start_timeline(world, "/dev/null/file") == ANELLO_FILE);
  EXPECT(anello_stop_timeline(world) == ANELLO_INVALID_ARGUMENT);
  snprintf(path, sizeof path, "%s/flight.%d", folder, c->rank);
  OK(anello_write_flight(world, path));
  snprintf(path, sizeof path, "%s/timeline", folder);
  OK(anello_start_timeline(world, path));
  OK(anello_phase_begin(world, "a phase", &phase));
  OK(anello_barrier(c->group, NULL, NULL));
  anello_phase_end(phase);
  anello_phase_end(NULL);
  OK(anello_stop_timeline(world));
}

int main(int argc, char** argv) {
  anello_world* world = NULL;
  const char* host = NULL;
  context c;
  int started;
  anello_config config = ANELLO_CONFIG_INIT;
  const char* settings[1] = {"ANELLO_STALL_TIME=20000"};
  config.settings = settings;
  config.settings_size = 1;
  if (anello_init(&config, &world) != ANELLO_OK) {
    fprintf(stderr, "%s\n", anello_last_error());
    return 1;
  }
  c.group = anello_world_group(world);
  c.rank = anello_rank(c.group);
  c.size = anello_size(c.group);
  EXPECT(anello_local_rank(world) == c.rank && anello_local_size(world) == c.size);
  EXPECT(anello_node_rank(world) == 0 && anello_node_count(world) == 1);
  OK(anello_host(world, c.size - 1, &host));
  EXPECT(host != NULL && strlen(host) > 0);
  names();
  for (started = 0; started < 2; started++) {
    reductions(&c, started);
    movements(&c, started);
  }
  groups_and_work(&c);
  waits_and_tokens(&c);
  errors(&c);
  last_error_in_place(&c);
  gradients(&c);
  diagnosis(&c, world, argv[argc - 1]);
  OK(anello_finish(world));
  EXPECT(anello_barrier(c.group, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  anello_world_free(world);
  anello_world_free(NULL);
  if (c.rank == 0 && failures == 0) printf("all right on %d ranks\n", c.size);
  return failures > 0;
}
