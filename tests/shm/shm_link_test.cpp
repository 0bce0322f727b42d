#include "ring/shm/shm_link.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/support/resources.hpp"

namespace anello {
namespace {

constexpr std::size_t kPipe = 4096;

struct Pair {
  int bell_of_maker = eventfd(0, EFD_NONBLOCK), bell_of_taker = eventfd(0, EFD_NONBLOCK);
  Segment segment = Segment::create(ShmLink::segment_bytes(kPipe));
  ShmLink taker{Segment::adopt(Descriptor(dup(segment.descriptor())), ShmLink::segment_bytes(kPipe)), kPipe,
                ShmLink::Side::taker, Descriptor(dup(bell_of_maker))};
  ShmLink maker{std::move(segment), kPipe, ShmLink::Side::maker, Descriptor(dup(bell_of_taker))};
  ~Pair() {
    close(bell_of_maker);
    close(bell_of_taker);
  }
};

bool rang(int bell) {
  std::uint64_t rings = 0;
  return read(bell, &rings, sizeof rings) > 0;
}

std::size_t send(Link& link, std::string_view text) {
  const ConstBytes piece = std::as_bytes(std::span(text));
  return link.send_from({&piece, 1});
}
std::string receive(Link& link, std::size_t most) {
  std::string text(most, '\0');
  const Bytes piece = std::as_writable_bytes(std::span(text));
  text.resize(link.recv_into({&piece, 1}));
  return text;
}

TEST(ShmLink, carries_bytes_both_ways) {
  Pair pair;
  EXPECT_EQ(receive(pair.maker, 10), "");
  EXPECT_EQ(send(pair.maker, "there"), 5);
  EXPECT_EQ(send(pair.taker, "back"), 4);
  EXPECT_EQ(receive(pair.taker, 3), "the");
  EXPECT_EQ(receive(pair.taker, 10), "re");
  EXPECT_EQ(receive(pair.maker, 10), "back");
}

TEST(ShmLink, shows_what_has_come_where_it_lies) {
  Pair pair;
  send(pair.maker, "abc");
  ASSERT_TRUE(pair.taker.peeks());
  ASSERT_EQ(pair.taker.peek().size(), 3);
  EXPECT_EQ(std::memcmp(pair.taker.peek().data(), "abc", 3), 0);
  pair.taker.consume(2);
  EXPECT_EQ(receive(pair.taker, 10), "c");
}

TEST(ShmLink, wakes_the_other_side_only_if_it_sleeps) {
  Pair pair;
  send(pair.maker, "x");
  EXPECT_FALSE(rang(pair.bell_of_taker));
  EXPECT_FALSE(pair.taker.may_sleep(false)) << "something has come";
  receive(pair.taker, 1);
  EXPECT_TRUE(pair.taker.may_sleep(false));
  send(pair.maker, "y");
  EXPECT_TRUE(rang(pair.bell_of_taker));
  EXPECT_TRUE(pair.maker.may_sleep(false));
  while (send(pair.maker, std::string(1000, 'z')) > 0) {
  }
  EXPECT_TRUE(pair.maker.may_sleep(true));
  receive(pair.taker, 1);
  EXPECT_TRUE(rang(pair.bell_of_maker));
}

TEST(ShmLink, leaves_no_descriptor_behind) {
  const std::ptrdiff_t before = open_descriptors();
  { Pair pair; }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace anello
