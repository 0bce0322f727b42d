// How control messages are passed on: each once, and goodbyes in one message.
#include "ring/failure/flood.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "ring/base/text.hpp"
#include "tests/support/random.hpp"

namespace anello::failure {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr milliseconds kComes{1000};

const ControlMessage kProposal{.verdict = {ErrorCode::aborted, 0, "enough"}};

ControlMessage goodbye(int origin, std::uint32_t number, std::uint64_t group, std::uint64_t completed) {
  ControlMessage message{.origin = origin, .number = number, .type = ControlMessage::Type::goodbye};
  message.group = group;
  message.completed = completed;
  return message;
}

// "2#1 3#7: 5" is one envelope: number 1 of rank 2 and number 7 of rank 3, after 5 operations.
std::vector<std::string> passed_on(Flood& flood, int world) {
  std::vector<std::string> lines;
  for (const std::string& bytes : flood.take_outbox()) {
    EXPECT_LE(bytes.size(), ControlMessage::kMaxBytes);
    const Envelope envelope = decode_envelope(bytes, world);
    std::string line;
    for (const ControlMessageId& id : envelope.ids) line += text(line.empty() ? "" : " ", id.origin, "#", id.number);
    lines.push_back(text(line, ": ", decode_body(envelope.body, world).completed));
  }
  return lines;
}

// Messages arrive by several ways; 64 of one rank may be under way at the same time.
TEST(Flood, PassesAMessageOnOnce) {
  Flood sender(0, 2), receiver(1, 2);
  const auto message = [&] {
    sender.send(kProposal);
    return sender.take_outbox().at(0);
  };
  const auto passes_on = [&](const std::string& bytes) {
    const bool is_new = !receiver.receive(bytes, kComes).empty();
    EXPECT_THAT(receiver.take_outbox(), SizeIs(is_new ? 1 : 0));
    return is_new;
  };
  std::vector<std::string> messages;
  for (int k = 0; k < 64; k++) messages.push_back(message());
  std::swap(messages.front(), messages.back());  // the newest first, the oldest last
  for (const std::string& bytes : messages) EXPECT_TRUE(passes_on(bytes));
  for (const std::string& bytes : messages) EXPECT_FALSE(passes_on(bytes));
  EXPECT_TRUE(passes_on(message()));
  EXPECT_FALSE(passes_on(messages.back())) << "older than the window";
}

// After the first copy of a message, other neighbours send further copies. The flood does not even decode these.
TEST(Flood, DoesNotLookIntoAMessageThatCameBefore) {
  Flood sender(0, 2), receiver(1, 2);
  sender.send(kProposal);
  const std::string bytes = sender.take_outbox().at(0);
  EXPECT_THAT(receiver.receive(bytes, kComes), SizeIs(1));
  EXPECT_THAT(receiver.receive(bytes + "x", kComes), IsEmpty());
}

TEST(Flood, DoesNotTakeItsOwnMessageForANewOne) {
  Flood flood(0, 2);
  flood.send(kProposal);
  EXPECT_THAT(flood.receive(flood.take_outbox().at(0), kComes), IsEmpty());
  const ControlMessage never_sent{.origin = 0, .number = 1000, .verdict = kProposal.verdict};
  EXPECT_THAT(flood.receive(encode(never_sent), kComes), IsEmpty());
}

TEST(Flood, GoodbyesThatSayTheSameTravelTogether) {
  Flood flood(0, 6);
  EXPECT_FALSE(flood.due());
  EXPECT_THAT(flood.receive(encode(goodbye(2, 1, 0, 5)), kComes), SizeIs(1)) << "at once for this rank";
  flood.receive(encode(goodbye(3, 7, 0, 5)), kComes + milliseconds(4));
  flood.receive(encode(goodbye(4, 1, 0, 6)), kComes + milliseconds(5));
  flood.receive(encode(goodbye(5, 1, 0, 5)), kComes + milliseconds(9));
  EXPECT_EQ(flood.due(), kComes + Flood::kWait) << "since the first came";
  flood.tick(*flood.due() - milliseconds(1));
  EXPECT_THAT(passed_on(flood, 6), IsEmpty());
  flood.tick(*flood.due());
  EXPECT_THAT(passed_on(flood, 6), ElementsAre("2#1 3#7 5#1: 5", "4#1: 6"));
  EXPECT_FALSE(flood.due());
}

// Goodbyes of other ranks go before everything else that a leaving rank sends. So a rank that has to find out who has
// left has already received these goodbyes.
TEST(Flood, GoodbyesGoBeforeWhatIsSentLater) {
  Flood flood(0, 6);
  flood.receive(encode(goodbye(2, 1, 0, 5)), kComes);
  flood.send(goodbye(0, 0, 0, 5));
  EXPECT_THAT(passed_on(flood, 6), ElementsAre("2#1 0#1: 5"));
  flood.receive(encode(goodbye(3, 1, 0, 5)), kComes);
  flood.send(kProposal);
  EXPECT_THAT(passed_on(flood, 6), ElementsAre("3#1: 5", "0#2: 0"));
  flood.receive(encode(goodbye(4, 1, 0, 5)), kComes);
  ControlMessage proposal = kProposal;
  proposal.origin = 5;
  proposal.number = 1;
  flood.receive(encode(proposal), kComes);
  EXPECT_THAT(passed_on(flood, 6), ElementsAre("4#1: 5", "5#1: 0"));
  EXPECT_FALSE(flood.due());
}

TEST(Flood, ReceivesTheNewOnesOfSeveralMessages) {
  Flood sender(0, 6), receiver(1, 6);
  for (const int origin : {2, 3, 4}) sender.receive(encode(goodbye(origin, 1, 0, 5)), kComes);
  sender.pass_on();
  receiver.receive(encode(goodbye(3, 1, 0, 5)), kComes);
  const std::vector<ControlMessage> messages = receiver.receive(sender.take_outbox().at(0), kComes);
  ASSERT_THAT(messages, SizeIs(2));
  EXPECT_EQ(messages[0].origin, 2);
  EXPECT_EQ(messages[1].origin, 4);
  EXPECT_EQ(messages[1].completed, 5u);
  receiver.pass_on();
  EXPECT_THAT(passed_on(receiver, 6), ElementsAre("3#1 2#1 4#1: 5"));
}

// The messages of a rank arrive in the order in which it sent them, even if many other ranks send messages too: a flood
// remembers only the newest numbers.
TEST(Flood, KeepsTheOrderOfEachRanksGoodbyes) {
  constexpr int kWorld = 600;
  for (const std::uint64_t seed : seeds(200)) {
    SCOPED_TRACE(replay(seed));
    Random random(seed);
    const int origins = int(random.from(1, random.percent(10) ? kWorld - 1 : 5)), groups = int(random.from(1, 9));
    Flood flood(0, kWorld);
    std::map<int, std::uint32_t> sent, received;
    for (std::uint64_t k = random.below(1000); k > 0; k--) {
      const int origin = int(random.from(1, std::uint64_t(origins)));
      flood.receive(encode(goodbye(origin, ++sent[origin], random.below(std::uint64_t(groups)), 5)), kComes);
    }
    flood.pass_on();
    for (const std::string& bytes : flood.take_outbox()) {
      ASSERT_LE(bytes.size(), ControlMessage::kMaxBytes);
      for (const ControlMessageId& id : decode_envelope(bytes, kWorld).ids) ASSERT_EQ(id.number, ++received[id.origin]);
    }
    EXPECT_EQ(received, sent);
  }
}

}  // namespace
}  // namespace anello::failure
