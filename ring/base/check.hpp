// Checks an invariant. A broken invariant is a bug of this library, not an error of the user, so the check ends the
// process and prints the place.
#pragma once
#include <cstdio>
#include <cstdlib>

#define ANELLO_CHECK(condition)                                                                       \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      std::fprintf(stderr, "anello: broken invariant: %s (%s:%d)\n", #condition, __FILE__, __LINE__); \
      std::abort();                                                                                   \
    }                                                                                                 \
  } while (false)
