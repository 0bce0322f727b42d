/* Rank 0 forgets to announce a gradient. That ends the world, and all ranks receive the reason. */
#include <anello/anello.h>
#include <string.h>

#include "expect.h"

int main(void) {
  anello_world* world = NULL;
  anello_group* group;
  anello_gradients* all = NULL;
  float values[3] = {0, 0, 0};
  anello_gradient one = {"forgotten", {NULL, 3, ANELLO_F32}, NULL, 0};
  anello_status status;
  int alone;
  OK(anello_init(NULL, &world));
  if (!world) return 1;
  group = anello_world_group(world);
  alone = anello_size(group) == 1;
  one.tensor.data = values;
  OK(anello_failure(world));
  OK(anello_gradients_create(group, &one, 1, NULL, &all));
  status = anello_barrier(group, NULL, NULL); /* so that rank 0 goes on when all have created theirs */
  EXPECT(status == ANELLO_OK || (!alone && status == ANELLO_ABORTED)); /* the world may have ended already */
  OK(anello_gradients_begin(all, 1.0));
  if (anello_rank(group) != 0) {
    status = anello_gradients_ready(all, 0);
    EXPECT(status == ANELLO_OK || status == ANELLO_ABORTED);
  }
  EXPECT(anello_gradients_finish(all, NULL) == (alone ? ANELLO_INVALID_ARGUMENT : ANELLO_ABORTED));
  EXPECT(strstr(anello_last_error(), "ready() was not called for 'forgotten'") != NULL);
  EXPECT(alone || anello_last_error_rank() == 0);
  EXPECT(anello_failure(world) == (alone ? ANELLO_OK : ANELLO_ABORTED));
  anello_gradients_free(all);
  anello_world_free(world);
  return failures > 0;
}
