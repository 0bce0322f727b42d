/* Ranks broadcast tensors of different sizes, and end without anello_world_free() as soon as they receive the error. */
#include <anello/anello.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"

static anello_world* world; /* where a leak detector finds it */

int main(void) {
  anello_group* group;
  float values[51] = {0};
  anello_tensor tensor = {NULL, 50, ANELLO_F32};
  OK(anello_init(NULL, &world));
  if (!world) return 1;
  group = anello_world_group(world);
  tensor.data = values;
  tensor.count += (uint64_t)anello_rank(group);
  if (anello_broadcast(group, tensor, 0, NULL, NULL) == ANELLO_OK) {
    EXPECT(anello_rank(group) == 0); /* it may have sent everything before it receives the error */
    EXPECT(anello_barrier(group, NULL, NULL) == ANELLO_MISMATCH);
  }
  EXPECT(strstr(anello_last_error(), "the counts differ") != NULL);
  if (failures > 0) fprintf(stderr, "%s\n", anello_last_error());
  return failures > 0;
}
