#include "ring/net/spawn.hpp"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <new>

namespace anello::net {
namespace {

asio::awaitable<int> answer(int* called) {
  ++*called;
  co_return 42;
}
asio::awaitable<void> lack_memory() {
  throw std::bad_alloc();
  co_return;
}

TEST(Spawn, RunsTheCoroutine) {
  asio::io_context context;
  int called = 0;
  spawn(context, answer(&called));
  context.run();
  EXPECT_EQ(called, 1);
}

TEST(Spawn, LetsAnExceptionLeaveTheEventLoop) {
  asio::io_context context;
  spawn(context, lack_memory());
  EXPECT_THROW(context.run(), std::bad_alloc);
}

}  // namespace
}  // namespace anello::net
