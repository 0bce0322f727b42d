#include "ring/shm/shm_link.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <anello/memory.hpp>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/readiness.hpp"
#include "tests/support/resources.hpp"

namespace anello::shm {
namespace {

constexpr std::size_t kPipe = 4096;

std::array<int, 2> couple() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  return ends;
}

struct Pair {
  int bell_of_maker = eventfd(0, EFD_NONBLOCK), bell_of_taker = eventfd(0, EFD_NONBLOCK);
  std::array<int, 2> fd_sockets = couple();
  MemoryFile file = MemoryFile::create(ShmLink::file_bytes(kPipe));
  Descriptor mapped_file{dup(file.descriptor())};
  MemoryFile mapped = MemoryFile::adopt(Descriptor(dup(file.descriptor())), ShmLink::file_bytes(kPipe));
  ShmLink taker{MemoryFile::adopt(Descriptor(dup(file.descriptor())), ShmLink::file_bytes(kPipe)), kPipe,
                ShmLink::Side::taker, Descriptor(dup(bell_of_maker)), Descriptor(fd_sockets[0])};
  ShmLink maker{std::move(file), kPipe, ShmLink::Side::maker, Descriptor(dup(bell_of_taker)),
                Descriptor(fd_sockets[1])};
  ~Pair() {
    close(bell_of_maker);
    close(bell_of_taker);
  }
};

bool rang(int bell) {
  std::uint64_t rings = 0;
  return read(bell, &rings, sizeof rings) > 0;
}

std::size_t send(link::Link& link, std::string_view text) {
  const ConstBytes piece = std::as_bytes(std::span(text));
  return link.send_from({&piece, 1});
}
std::string receive(link::Link& link, std::size_t most) {
  std::string text(most, '\0');
  const Bytes piece = std::as_writable_bytes(std::span(text));
  text.resize(link.recv_into({&piece, 1}));
  return text;
}

TEST(ShmLink, CarriesBytesBothWays) {
  Pair pair;
  EXPECT_EQ(receive(pair.maker, 10), "");
  EXPECT_EQ(send(pair.maker, "there"), 5);
  EXPECT_EQ(send(pair.taker, "back"), 4);
  EXPECT_EQ(receive(pair.taker, 3), "the");
  EXPECT_EQ(receive(pair.taker, 10), "re");
  EXPECT_EQ(receive(pair.maker, 10), "back");
}

TEST(ShmLink, SendsPiecesThatGoTogetherAsOneRun) {
  Pair pair;
  const std::string first(48, 'a'), second(20, 'b');
  for (const std::string& last : {std::string(200, 'c'), second}) {
    const std::array pieces{std::as_bytes(std::span(first)), std::as_bytes(std::span(last))};
    EXPECT_EQ(pair.maker.send_from(pieces), first.size() + last.size());
    EXPECT_EQ(pair.taker.peek().size(), first.size() + last.size());
    EXPECT_EQ(receive(pair.taker, 1000), first + last);
  }
  EXPECT_FALSE(pair.maker.prefers_one_piece());
  EXPECT_EQ(send(pair.maker, first + second), 68);
  EXPECT_EQ(send(pair.maker, second), 20);
  EXPECT_EQ(pair.taker.peek().size(), 68) << "each in a line of its own";
}

// The pieces of a call still begin with bytes that the other side has just taken. All pieces together do not fit into
// one line, but the remaining pieces may.
TEST(ShmLink, TheRestOfAReferenceIsNotSentTwice) {
  Pair pair;
  constexpr std::size_t kBytes = 40000, kRest = 100;
  void* const memory = allocate(kBytes);
  ConstBytes piece{static_cast<const std::byte*>(memory), kBytes};
  pair.maker.begin(true, true);
  pair.taker.begin(false, false);
  EXPECT_EQ(pair.maker.send_from({&piece, 1}), 0) << "referred to, and not taken";
  for (std::size_t left = kBytes - kRest; left > 0;) {
    const std::size_t some = std::min(pair.taker.peek().size(), left);
    ASSERT_GT(some, 0);
    pair.taker.consume(some);
    left -= some;
  }
  EXPECT_EQ(pair.maker.send_from({&piece, 1}), kBytes - kRest);
  piece = piece.subspan(kBytes - kRest);
  pair.taker.consume(pair.taker.peek().size());
  EXPECT_EQ(pair.maker.send_from({&piece, 1}), kRest);
  EXPECT_TRUE(pair.taker.peek().empty());
  deallocate(memory);
}

TEST(ShmLink, ShowsWhatHasComeWhereItLies) {
  Pair pair;
  send(pair.maker, "abc");
  ASSERT_TRUE(pair.taker.memory());
  ASSERT_EQ(pair.taker.peek().size(), 3);
  EXPECT_EQ(std::memcmp(pair.taker.peek().data(), "abc", 3), 0);
  pair.taker.consume(2);
  EXPECT_EQ(receive(pair.taker, 10), "c");
}

TEST(ShmLink, WakesTheOtherSideOnlyIfItSleeps) {
  Pair pair;
  send(pair.maker, "x");
  EXPECT_FALSE(rang(pair.bell_of_taker));
  EXPECT_TRUE(ready(pair.taker, link::Wanted::bytes, {})) << "something has come";
  receive(pair.taker, 1);
  EXPECT_FALSE(ready(pair.taker, link::Wanted::bytes, {}));
  send(pair.maker, "y");
  EXPECT_TRUE(rang(pair.bell_of_taker));
  EXPECT_FALSE(ready(pair.maker, link::Wanted::bytes, {}));
  while (send(pair.maker, std::string(1000, 'z')) > 0) {
  }
  EXPECT_FALSE(ready(pair.maker, link::Wanted::room, {}));
  receive(pair.taker, 1);
  EXPECT_TRUE(rang(pair.bell_of_maker));
}

using Memory = std::vector<char, Allocator<char>>;

// The error must not blame the peer. So the link must not throw an Error, because an Error of a link gets the peer's
// rank.
TEST(ShmLink, AFileForWhichNoDescriptorIsLeftIsMissedWhenItIsUsed) {
  for (const bool shown_first : {false, true}) {
    Pair pair;
    pair.maker.begin(true, true);
    pair.taker.begin(false, false);
    const Memory memory(40'000, 'a');
    const FewDescriptors none(0);
    EXPECT_EQ(send(pair.maker, {memory.data(), memory.size()}), 0) << "referred to, and not taken";
    const std::optional<Loan> mine = lend(std::as_bytes(std::span(memory)));
    const bool took_all = shown_first && pair.taker.window()->can_show({mine->place, mine->place});
    EXPECT_EQ(took_all, shown_first);
    try {
      receive(pair.taker, memory.size());
      ADD_FAILURE() << "it came";
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find("ulimit -n"), std::string::npos) << e.what();
    }
  }
}

// The test sends a list of new tensors, and among them tensors whose memory would be unmapped next.
TEST(ShmLink, KeepsWhatIsReferredToMapped) {
  Pair pair;
  pair.maker.begin(true, true);
  pair.taker.begin(false, false);
  constexpr std::size_t kBytes = 33'000, kRegions = 64;
  const auto pass_on = [&](std::span<const Memory* const> list) {
    std::vector<ConstBytes> pieces;
    std::string expected;
    for (const Memory* const each : list) {
      pieces.push_back(std::as_bytes(std::span(*each)));
      expected.append(each->data(), each->size());
    }
    EXPECT_EQ(pair.maker.send_from(pieces), 0) << "referred to, and not taken";
    EXPECT_EQ(receive(pair.taker, expected.size()), expected);
    EXPECT_EQ(pair.maker.send_from(pieces), expected.size());
  };
  std::vector<Memory> memories;
  for (std::size_t k = 0; k < kRegions + 16; k++) memories.emplace_back(kBytes, char('a' + k % 26));
  for (std::size_t k = 0; k < kRegions; k++) pass_on(std::array<const Memory*, 1>{&memories[k]});
  std::vector<const Memory*> list;  // new, old, new, old, ...
  for (std::size_t k = 0; k < 8; k++) list.insert(list.end(), {&memories[kRegions + k], &memories[2 * k + 1]});
  pass_on(list);
}

TEST(ShmLink, ShowsLargeAllocatedMemoryWhereItIs) {
  Pair pair;
  pair.maker.begin(true, true);
  Memory memory(200'000, 'a');
  const std::string_view all(memory.data(), memory.size());
  EXPECT_EQ(send(pair.maker, all), 0) << "nothing is taken yet";
  std::size_t taken = 0, reported = 0;
  for (char letter = 'b'; taken < all.size(); letter++) {
    std::fill(memory.begin() + std::ptrdiff_t(taken), memory.end(), letter);  // the bytes are read here, not in a copy
    const ConstBytes run = pair.taker.peek();
    ASSERT_FALSE(run.empty());
    EXPECT_TRUE(std::ranges::all_of(run, [&](std::byte b) { return b == std::byte(letter); }));
    pair.taker.consume(run.size());
    taken += run.size();
    reported += send(pair.maker, all.substr(reported));
    EXPECT_EQ(reported, taken);
  }
  EXPECT_EQ(send(pair.maker, "end"), 3);
  EXPECT_EQ(receive(pair.taker, 10), "end");
}

TEST(ShmLink, WhatIsPutInItsMemoryIsSent) {
  Pair pair;
  pair.maker.begin(true, true);
  std::optional<Bytes> room = pair.maker.room(1 << 20);
  ASSERT_TRUE(room);
  EXPECT_EQ(room->size(), kPipe);
  std::ranges::fill(*room, std::byte('p'));
  EXPECT_EQ(receive(pair.taker, 10), "") << "not put yet";
  EXPECT_FALSE(ready(pair.taker, link::Wanted::bytes, {}));
  pair.maker.put(8);
  EXPECT_TRUE(rang(pair.bell_of_taker)) << "it slept";
  EXPECT_EQ(receive(pair.taker, 10), "pppppppp");
  EXPECT_EQ(pair.maker.room(1 << 20)->size(), kPipe - 8) << "up to the memory's end";
  pair.maker.put(kPipe - 8);
  EXPECT_EQ(pair.maker.room(1 << 20)->size(), 8);
  pair.maker.put(8);
  EXPECT_TRUE(pair.maker.room(1 << 20)->empty()) << "full";
}

TEST(ShmLink, NothingIsPutBehindReferencesThatAreNotTaken) {
  Pair pair;
  pair.maker.begin(true, true);
  const Memory memory(200'000, 'a');
  EXPECT_EQ(send(pair.maker, {memory.data(), memory.size()}), 0);
  EXPECT_FALSE(pair.maker.room(1 << 20));
  while (!pair.taker.peek().empty()) pair.taker.consume(pair.taker.peek().size());
  EXPECT_FALSE(pair.maker.room(1 << 20)) << "they have not been counted as sent";
  EXPECT_EQ(send(pair.maker, {memory.data(), memory.size()}), memory.size());
  EXPECT_TRUE(pair.maker.room(1 << 20));
}

// Each message begins a cache line; short messages also have a line of their own.
TEST(ShmLink, SaysWhetherBytesHaveComeWhereverTheLastOnesEnded) {
  Pair pair;
  const Memory large(200'000, 'a');
  for (const std::string& copied : {std::string("word"), std::string("more"), std::string(3000, 'x'), std::string()}) {
    const std::string_view message = copied.empty() ? std::string_view(large.data(), large.size()) : copied;
    EXPECT_FALSE(pair.taker.has_arrived()) << message.size();
    pair.maker.begin(true, true);
    send(pair.maker, message);
    EXPECT_TRUE(pair.taker.has_arrived() && pair.taker.has_arrived()) << message.size();
    pair.taker.begin(false, true);
    EXPECT_EQ(receive(pair.taker, message.size()), message);
  }
  EXPECT_FALSE(pair.taker.has_arrived());
}

TEST(ShmLink, CopiesWhereItMayNotRefer) {
  Pair pair;
  pair.maker.begin(true, false);
  const Memory memory(200'000, 'a');
  EXPECT_EQ(send(pair.maker, {memory.data(), memory.size()}), kPipe);
}

TEST(ShmLink, RefusesReferencesToWhatIsNotThere) {
  Pair pair;
  pair.maker.begin(true, true);
  const Memory memory(40'000, 'a');
  send(pair.maker, {memory.data(), memory.size()});
  auto& states = *reinterpret_cast<std::array<PipeState, 2>*>(pair.mapped.memory().data());
  states[0].references[0].place.offset = 4000;
  EXPECT_THROW(pair.taker.peek(), Error);
}

char first_of(ConstBytes run) {
  return run.empty() ? ' ' : char(run[0]);
}

TEST(ShmLink, MemoryThatIsFreedStaysWhileItIsRead) {
  Pair pair;
  pair.maker.begin(true, true);
  {
    const Memory memory(100'000, 'a');
    send(pair.maker, {memory.data(), memory.size()});
  }
  for (std::size_t taken = 0; taken < 100'000;) {
    const ConstBytes run = pair.taker.peek();
    ASSERT_EQ(first_of(run), 'a') << taken;
    taken += run.size();
    pair.taker.consume(run.size());
  }
}

TEST(ShmLink, WhatIsRevokedCannotBeTaken) {
  Pair pair;
  pair.maker.begin(true, true);
  Memory memory(100'000, 'a');
  const std::string_view all(memory.data(), memory.size());
  send(pair.maker, all);
  const ConstBytes run = pair.taker.peek();
  pair.taker.consume(run.size());
  ASSERT_EQ(first_of(pair.taker.peek()), 'a');
  pair.maker.revoke();
  memory.assign(memory.size(), 'b');
  EXPECT_THROW(pair.taker.consume(1), Error);
}

TEST(ShmLink, ALinkThatEndsRevokesWhatWasNotTaken) {
  Pair pair;
  const Memory memory(100'000, 'a');
  {
    ShmLink ends{MemoryFile::adopt(Descriptor(dup(pair.mapped_file.get())), ShmLink::file_bytes(kPipe)), kPipe,
                 ShmLink::Side::maker, Descriptor(dup(pair.bell_of_taker)), Descriptor(dup(pair.fd_sockets[1]))};
    ends.begin(true, true);
    send(ends, {memory.data(), memory.size()});
  }
  ASSERT_EQ(first_of(pair.taker.peek()), 'a');
  EXPECT_THROW(pair.taker.consume(1), Error);
}

TEST(ShmLink, ATensorMustBeThereInEachSizeInWhichItIsUsed) {
  Pair pair;
  Memory memory(8192, 'a');
  const Place place = lend(std::as_bytes(std::span(memory)))->place;
  const Window::Places places{place, place};
  ASSERT_TRUE(pair.maker.window()->can_show(places));
  pair.maker.window()->post(1, {}, Shown::tensors, places);
  EXPECT_NE(pair.taker.window()->tensors(0, 4096).output, nullptr);
  const Window::Tensors tensors = pair.taker.window()->tensors(8192, 8192);
  EXPECT_EQ(tensors.input, tensors.output);
  EXPECT_THROW(pair.taker.window()->tensors(std::uint64_t(1) << 30, 0), Error);
  EXPECT_THROW(pair.taker.window()->tensors(0, std::uint64_t(1) << 30), Error);
  EXPECT_EQ(pair.taker.window()->tensors(1, 1).output, tensors.output);
}

TEST(ShmLink, LeavesNoDescriptorBehind) {
  const std::ptrdiff_t before = open_descriptors();
  { Pair pair; }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace anello::shm
