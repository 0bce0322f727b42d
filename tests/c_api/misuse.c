/* NULL handles, and structs that are not initialised: one rank, or several, of which rank 1 calls wrongly. Ends with 1 and
 * a line for each expectation that failed. */
#define _POSIX_C_SOURCE 199309L /* nanosleep */
#include <anello/gpu.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

#define IS_NULL(what) EXPECT(strcmp(anello_last_error(), "the " what " is NULL") == 0)

static void null_handles(void) {
  EXPECT(anello_local_rank(NULL) == -1 && anello_local_size(NULL) == -1);
  EXPECT(anello_node_rank(NULL) == -1 && anello_node_count(NULL) == -1);
  EXPECT(anello_world_group(NULL) == NULL);
  IS_NULL("world");
  EXPECT(anello_rank(NULL) == -1 && anello_size(NULL) == -1);
  EXPECT(anello_world_rank(NULL, 0) == -1 && anello_rank_of(NULL, 0) == -1);
  IS_NULL("group");
  EXPECT(anello_work_done(NULL) == -1);
  IS_NULL("work");
  EXPECT(anello_named_done(NULL) == -1);
  IS_NULL("operation");
  EXPECT(anello_gpu_device(NULL) == -1 && anello_gpu_backend(NULL) == NULL && anello_gpu_reason(NULL) == NULL);
  EXPECT(anello_gpu_ranks(NULL) == NULL);
  IS_NULL("GPU group");
  EXPECT(anello_gpu_memory_data(NULL) == NULL);
  IS_NULL("memory");
}

static void elastic_jobs(anello_world* world) {
  anello_elastic* job = NULL;
  anello_elastic_change change = ANELLO_ELASTIC_CHANGE_INIT;
  uint64_t high = 0, low = 0;
  EXPECT(anello_elastic_revision(NULL) == UINT64_MAX && anello_elastic_holds(NULL) == -1);
  EXPECT(anello_elastic_clean(NULL) == -1 && anello_elastic_survives(NULL, ANELLO_RANK_DEAD, 1) == -1);
  EXPECT(anello_elastic_change_is_planned(NULL) == -1);
  IS_NULL("job");
  EXPECT(anello_elastic_enter(NULL, &world) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_elastic_begin(NULL, "") == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_elastic_deliver(NULL, NULL, 0) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_elastic_get_change(NULL, &change) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_elastic_commit_begin(NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_elastic_finish(NULL) == ANELLO_INVALID_ARGUMENT);
  anello_elastic_free(NULL);
  EXPECT(anello_elastic_hash(NULL, 8, &high, &low) == ANELLO_INVALID_ARGUMENT);
  IS_NULL("data");
  EXPECT(anello_elastic_hash("", 0, &high, NULL) == ANELLO_INVALID_ARGUMENT);
  OK(anello_elastic_hash(NULL, 0, &high, &low));
  EXPECT(high == 0x99aa06d3014798d8 && low == 0x6001c324468d497f);
  EXPECT(anello_elastic_order(7, 3, NULL, 1) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_elastic_join(NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  if (anello_size(anello_world_group(world)) > 1) return; /* the launcher's server is for a fixed job */
  EXPECT(anello_elastic_join(NULL, &job) == ANELLO_CONFIGURATION && job == NULL);
  EXPECT(strstr(anello_last_error(), "start `anello rendezvous --min-np N`") != NULL);
}

static char long_reason[100000]; /* longer than a message can be */

/* A result that cannot be returned is refused while the step can still be finished. */
static void statistics_of_no_size(anello_group* group) {
  float value = 1;
  anello_step_stats step = ANELLO_STEP_STATS_INIT;
  anello_gradients* all = NULL;
  anello_gradient gradient = {"value", {NULL, 1, ANELLO_F32}, NULL, 0};
  gradient.tensor.data = &value;
  OK(anello_gradients_create(group, &gradient, 1, NULL, &all));
  OK(anello_gradients_begin(all, 2));
  OK(anello_gradients_ready(all, 0));
  step.struct_size = 0;
  EXPECT(anello_gradients_finish(all, &step) == ANELLO_INVALID_ARGUMENT);
  step.struct_size = sizeof step;
  OK(anello_gradients_finish(all, &step));
  EXPECT(value == 2);
  anello_gradients_free(all);
}

static anello_status wrong_call(anello_agenda* agenda, int way, anello_array array, anello_named** operation) {
  anello_named_options options = ANELLO_NAMED_OPTIONS_INIT;
  if (way == 0) return anello_named_allreduce(agenda, NULL, NULL, NULL, 1, ANELLO_SUM, NULL, operation);
  if (way == 1) options.struct_size = 0;
  if (way == 2) array.dimensions = 1; /* the shape is NULL */
  if (way == 3) operation = NULL;
  if (way < 4) return anello_named_allreduce(agenda, NULL, &array, NULL, 1, ANELLO_SUM, &options, operation);
  EXPECT(anello_named_refuse(agenda, (anello_verb)99, NULL, "wrong") == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_named_refuse(agenda, ANELLO_NAMED_ALLREDUCE, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_named_refuse(NULL, ANELLO_NAMED_ALLREDUCE, NULL, "wrong") == ANELLO_INVALID_ARGUMENT);
  OK(anello_named_refuse(agenda, ANELLO_NAMED_ALLREDUCE, NULL, long_reason));
  return ANELLO_INVALID_ARGUMENT;
}

/* Each counts as submitted: the other ranks, whose calls are right, get the reason, and unnamed calls stay in step. */
static void wrong_named_calls(anello_agenda* agenda, int rank, int size) {
  int way;
  memset(long_reason, 'x', sizeof long_reason - 1);
  for (way = 0; way < 5; way++) {
    float value = 1;
    anello_array array = {NULL, NULL, 0, ANELLO_F32};
    anello_named* operation = NULL;
    array.data = &value;
    if (rank == (size > 1)) {
      EXPECT(wrong_call(agenda, way, array, &operation) != ANELLO_OK && operation == NULL);
      continue;
    }
    OK(anello_named_allreduce(agenda, NULL, &array, NULL, 1, ANELLO_SUM, NULL, &operation));
    EXPECT(anello_named_wait(operation, UINT64_MAX) == ANELLO_MISMATCH);
    EXPECT(strstr(anello_last_error(), "rank 1 cannot take part: ") != NULL && anello_last_error_rank() == 1);
    anello_named_free(operation);
  }
}

/* In a child, where its parent's threads may have held any lock, it reports that and does not wait for a lock. Not with
   AddressSanitizer, whose own allocator (GCC 12) waits in the child for a lock that such a thread held. */
#ifndef __SANITIZE_ADDRESS__
static void described_in_a_child(anello_agenda* agenda) {
  anello_named* operation = NULL;
  const char* line = NULL;
  int status = -1;
  pid_t child;
  OK(anello_named_barrier(agenda, "barrier", NULL, &operation));
  child = fork();
  if (child == 0) {
    alarm(20);
    _exit(anello_named_describe(operation, &line) == ANELLO_INVALID_ARGUMENT && line == NULL ? 0 : 1);
  }
  waitpid(child, &status, 0);
  EXPECT(status == 0);
  OK(anello_named_wait(operation, UINT64_MAX));
  OK(anello_named_describe(operation, &line));
  anello_named_free(operation);
}
#endif

int main(void) {
  anello_world* world = NULL;
  anello_agenda* agenda = NULL;
  anello_group* group;
  null_handles();
  OK(anello_init(NULL, &world));
  group = anello_world_group(world);
  elastic_jobs(world);
  statistics_of_no_size(group);
  OK(anello_agenda_create(group, &agenda));
  wrong_named_calls(agenda, anello_rank(group), anello_size(group));
#ifndef __SANITIZE_ADDRESS__
  described_in_a_child(agenda);
#endif
  OK(anello_barrier(group, NULL, NULL));
  anello_agenda_free(agenda);
  OK(anello_finish(world));
  anello_world_free(world);
  return failures > 0;
}
