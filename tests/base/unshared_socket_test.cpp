#include "ring/base/unshared_socket.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/in_child.hpp"
#include "tests/support/resources.hpp"

namespace anello {
namespace {

constexpr int kRight = 7;

struct Connected {
  Descriptor listener, mine, other;  // `mine` was accepted
};

// Two connected sockets on this host, at an abstract address that the kernel chooses.
Connected connected() {
  Connected result;
  result.listener = unshared_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  socklen_t bytes = sizeof where.sun_family;
  auto* address = reinterpret_cast<sockaddr*>(&where);
  EXPECT_EQ(bind(result.listener.get(), address, bytes), 0);
  EXPECT_EQ(listen(result.listener.get(), 1), 0);
  bytes = sizeof where;
  getsockname(result.listener.get(), address, &bytes);
  result.other = Descriptor(socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_EQ(connect(result.other.get(), address, bytes), 0);
  result.mine = accept_unshared(result.listener.get());
  EXPECT_TRUE(result.mine);
  return result;
}

bool is_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

bool ended(const Descriptor& socket) {
  char byte;
  return recv(socket.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

TEST(UnsharedSocket, EndsWithItsProcessThoughAChildOfForkLives) {
  Connected connection = connected();
  int until[2], ready[2];
  ASSERT_EQ(pipe2(until, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const Descriptor until_read(until[0]), ready_read(ready[0]), ready_write(ready[1]);
  Descriptor until_write(until[1]);
  const pid_t child = fork();
  if (child == 0) {
    until_write.close();
    char byte = 1;
    if (write(ready_write.get(), &byte, 1) != 1) _exit(1);
    _exit(int(read(until_read.get(), &byte, 1)));
  }
  char byte = 0;
  EXPECT_EQ(read(ready_read.get(), &byte, 1), 1);
  EXPECT_FALSE(ended(connection.other)) << "the child ended the parent's connection";
  connection.mine.close();
  EXPECT_TRUE(ended(connection.other)) << "the child keeps the connection";
  until_write.close();
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(UnsharedSocket, IsNothingInTheChildWhereItsNumberStaysTaken) {
  const Connected connection = connected();
  EXPECT_EQ(in_child([&] {
              for (const Descriptor* each : {&connection.listener, &connection.mine}) {
                if (is_socket(each->get())) return 1;
                if (fcntl(each->get(), F_GETFD) != FD_CLOEXEC) return 2;
              }
              return is_socket(connection.other.get()) ? kRight : 3;  // must be the program's own
            }),
            kRight);
  EXPECT_TRUE(is_socket(connection.mine.get()));
}

// After a close, the program may use the descriptor's number for a file of its own.
TEST(UnsharedSocket, LeavesAFileOfTheProgramAloneThatHasItsNumber) {
  Connected connection = connected();
  const int number = connection.mine.release(), second = connection.listener.release();
  const Descriptor zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(dup2(connection.other.get(), number), number);
  ASSERT_EQ(dup2(zero.get(), second), second);
  const Descriptor owners[] = {Descriptor(number), Descriptor(second)};
  EXPECT_EQ(in_child([&] {
              char byte = 1;
              if (!is_socket(number)) return 1;
              return read(second, &byte, 1) == 1 && byte == 0 ? kRight : 2;
            }),
            kRight);
}

TEST(UnsharedSocket, IsClosedInTheChildIfNoDescriptorIsFree) {
  const Connected connection = connected();
  const FewDescriptors none(0);
  EXPECT_EQ(in_child([&] { return fcntl(connection.mine.get(), F_GETFD) == -1 ? kRight : 1; }), kRight);
}

TEST(UnsharedSocket, CanBeOpenedInAChildAndInItsChild) {
  const Connected connection = connected();
  EXPECT_EQ(in_child([&] {
              const Connected own = connected();
              if (!is_socket(own.mine.get())) return 1;
              return in_child([&] { return is_socket(own.mine.get()) ? 2 : kRight; });
            }),
            kRight);
}

}  // namespace
}  // namespace anello
