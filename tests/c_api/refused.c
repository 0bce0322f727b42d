/* Rank 1 refuses a call, as a language binding does, and makes no call: the error of the others at the limit has the
 * reason. The argument is the kind of call. Ends with 1 and a line for each expectation that failed. */
#define _POSIX_C_SOURCE 199309L /* nanosleep */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "expect.h"

#define ELEMENTS (4 << 20) /* more than fits into any buffer */
static const char* const kReason = "the array is read-only";

static int is(const char* kind, const char* wanted) {
  return strcmp(kind, wanted) == 0;
}

static void refuse_null(anello_group* group) {
  EXPECT(anello_refuse(NULL, kReason) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_refuse(group, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_refuse_send(group, 1, kReason) == ANELLO_INVALID_ARGUMENT); /* rank 1 itself */
  EXPECT(anello_refuse_recv(group, 99, kReason) == ANELLO_INVALID_ARGUMENT);
}

/* With options that are not initialised the library refuses the call. */
static void refuse(anello_group* group, const char* kind, anello_tensor tensor) {
  anello_options options = ANELLO_OPTIONS_INIT;
  const anello_input input = {tensor.data, tensor.count, tensor.dtype};
  options.struct_size = 0;
  refuse_null(group);
  if (is(kind, "collective")) OK(anello_refuse(group, kReason));
  if (is(kind, "send")) OK(anello_refuse_send(group, 0, kReason));
  if (is(kind, "recv")) OK(anello_refuse_recv(group, 0, kReason));
  if (is(kind, "options")) EXPECT(anello_allreduce(group, input, tensor, ANELLO_SUM, &options, NULL) != ANELLO_OK);
}

static anello_status call(anello_group* group, const char* kind, anello_tensor tensor) {
  const anello_input input = {tensor.data, tensor.count, tensor.dtype};
  if (is(kind, "send")) return anello_recv(group, tensor, 1, NULL, NULL);
  if (is(kind, "recv")) return anello_send(group, input, 1, NULL, NULL);
  return anello_allreduce(group, input, tensor, ANELLO_SUM, NULL, NULL);
}

int main(int count, char** arguments) {
  const char* const settings[] = {"ANELLO_OPERATION_LIMIT=3000"};
  const struct timespec pause = {0, 10 * 1000 * 1000};
  const char* const kind = count > 1 ? arguments[1] : "collective";
  const char* const reason = is(kind, "options") ? "struct_size is 0" : kReason;
  anello_config config = ANELLO_CONFIG_INIT;
  anello_world* world = NULL;
  anello_tensor tensor = {NULL, ELEMENTS, ANELLO_F32};
  anello_group* group;
  int rank;
  tensor.data = calloc(ELEMENTS, sizeof(float));
  config.settings = settings;
  config.settings_size = 1;
  OK(anello_init(&config, &world));
  group = anello_world_group(world);
  rank = anello_rank(group);
  OK(anello_barrier(group, NULL, NULL));
  if (rank == 1) refuse(group, kind, tensor);
  if (rank == 0 || (rank > 1 && !is(kind, "send") && !is(kind, "recv")))
    EXPECT(call(group, kind, tensor) == ANELLO_TIMED_OUT);
  while (anello_failure(world) == ANELLO_OK) nanosleep(&pause, NULL);
  EXPECT(strstr(anello_last_error(), "refused its call: ") != NULL && strstr(anello_last_error(), reason) != NULL);
  EXPECT(anello_last_error_rank() == 1);
  EXPECT(anello_refuse(group, kReason) == ANELLO_OK); /* no effect */
  anello_world_free(world);
  free(tensor.data);
  return failures > 0;
}
