// A launcher without memory. These tests do not run with sanitizers, which end a process that has no memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "ring/base/descriptor.hpp"
#include "tests/launch/launched.hpp"

namespace anello::launch {
namespace {

bool connect_to(int port, const Descriptor& socket) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(std::uint16_t(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// The rendezvous runs in its own thread, which needs memory for each connection.
TEST(ScarceMemory, ItsRendezvousSaysThatThereIsNone) {
  Process job(ranks(2, "[ $ANELLO_RANK = 1 ] || echo \"port ${ANELLO_RENDEZVOUS##*:}.\"; exec sleep 300"));
  ASSERT_TRUE(job.says("."));
  const int port = std::stoi(job.out().substr(job.out().find("port ") + 5));
  const rlimit none{1, 1};
  ASSERT_EQ(prlimit(job.pid(), RLIMIT_DATA, &none, nullptr), 0);
  std::vector<Descriptor> connections;
  do connections.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
  while (connect_to(port, connections.back()));
  EXPECT_EQ(job.wait(), 1);
  EXPECT_TRUE(contains(job.err(), "out of memory")) << job.err();
  EXPECT_TRUE(job.none_left());
}

}  // namespace
}  // namespace anello::launch
#endif
