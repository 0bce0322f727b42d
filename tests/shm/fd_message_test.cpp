#include "ring/shm/fd_message.hpp"

#include <gmock/gmock.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <anello/error.hpp>
#include <array>

#include "tests/support/resources.hpp"

namespace anello::shm {
namespace {

using testing::HasSubstr;

class FdMessages : public testing::Test {
 protected:
  FdMessages() {
    std::array<int, 2> pair{};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data());
    mine_ = Descriptor(pair[0]);
    theirs_ = Descriptor(pair[1]);
    const Descriptor file(eventfd(0, EFD_CLOEXEC));
    const int number = file.get();
    send_fd_message(theirs_, "token", {&number, 1});
  }
  Descriptor mine_, theirs_;
};

TEST_F(FdMessages, CarryBytesAndADescriptor) {
  const FdMessage message = receive_fd_message(mine_, 5);
  EXPECT_EQ(message.bytes, "token");
  ASSERT_EQ(message.descriptors.size(), 1U);
  EXPECT_EQ(eventfd_write(message.descriptors[0].get(), 1), 0);
}

TEST_F(FdMessages, SayWhatToDoIfNoDescriptorIsLeft) {
  const FewDescriptors none(0);
  try {
    (void)receive_fd_message(mine_, 5);
    ADD_FAILURE() << "it came";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::network);
    EXPECT_THAT(e.what(), HasSubstr("ulimit -n"));
  }
}

// The process has room for only one of the two descriptors. The one that was received must be closed again.
TEST_F(FdMessages, LeaveNoDescriptorIfOneOfThemDoesNotFit) {
  const std::array<int, 2> both{mine_.get(), mine_.get()};
  (void)receive_fd_message(mine_, 5);
  send_fd_message(theirs_, "token", both);
  const FewDescriptors one(1);
  const auto before = entries("/proc/self/fd");
  EXPECT_THROW((void)receive_fd_message(mine_, 5), Error);
  EXPECT_EQ(entries("/proc/self/fd"), before);
}

}  // namespace
}  // namespace anello::shm
