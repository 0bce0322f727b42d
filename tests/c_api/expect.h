/* Expectations for the test programs in C. */
#pragma once
#include <anello/anello.h>
#include <stdio.h>

static int failures = 0;

#define EXPECT(condition)                                                              \
  do {                                                                                 \
    if (!(condition)) {                                                                \
      fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, anello_last_error()); \
      failures++;                                                                      \
    }                                                                                  \
  } while (0)
#define OK(call) EXPECT((call) == ANELLO_OK)
