#include <anello/anello.h>
#include <stdio.h>

int main(void) {
  anello_world* world;
  double mean = 0;
  if (anello_init(NULL, &world) != ANELLO_OK) return fputs(anello_last_error(), stderr), 1;
  if (anello_average(anello_world_group(world), 2.5, &mean) != ANELLO_OK) return fputs(anello_last_error(), stderr), 1;
  printf("mean %.1f\n", mean);
  anello_world_free(world);
  return 0;
}
