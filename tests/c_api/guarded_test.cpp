// The return values of calls of the C API if the body of the function throws.
#include <gtest/gtest.h>

#include <new>

#include "rendezvous/c_api/handles.hpp"

namespace anello::c_api {
namespace {

TEST(Guarded, SaysInWordsThatMemoryIsLacking) {
  EXPECT_EQ(guarded([] { throw std::bad_alloc(); }), ANELLO_OUT_OF_MEMORY);
  EXPECT_STREQ(last_error.message.data(),
               "out of memory: an allocation failed; give each rank more memory, or start fewer ranks on this host");
  EXPECT_EQ(last_error.rank, -1);
  EXPECT_EQ(guarded([] { throw std::bad_array_new_length(); }), ANELLO_OUT_OF_MEMORY);
  EXPECT_EQ(std::string(last_error.message.data()).substr(0, 14), "out of memory:");
}

}  // namespace
}  // namespace anello::c_api
