#include "ring/base/os.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/in_child.hpp"

namespace anello {
namespace {

using std::chrono::milliseconds;

// Linux reports the start of a process only in hundredths of a second.
TEST(ProcessAge, GrowsAndIsThatOfThisProcessAlone) {
  const milliseconds before = process_age();
  std::this_thread::sleep_for(milliseconds(50));
  const milliseconds after = process_age();
  EXPECT_GE(after - before, milliseconds(49));
  EXPECT_EQ(in_child([&] { return process_age() < after ? 1 : 0; }), 1);
}

}  // namespace
}  // namespace anello
