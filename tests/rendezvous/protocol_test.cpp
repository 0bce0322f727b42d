#include "rendezvous/protocol/protocol.hpp"

#include <gmock/gmock.h>

#include <random>

#include "ring/base/wire.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::vector<std::string> request_bodies() {
  Join join{"node-a", "kernel", "fe80::1%eth0", 77, 70, 3, 8, 1, milliseconds(1500), milliseconds(800), true};
  return {encode(Request(join)),         encode(Request(Contribution{std::string("\0blob", 5), milliseconds(9)})),
          encode(Request(Leave{41234})), encode(Request(Fail{"no luck", 5})),
          encode(Request(Arrive{})),     encode(Request(Enter{6})),
          encode(Request(Begun{})),      encode(Request(Commits{1ull << 40})),
          encode(Request(Present{})),    encode(Request(Done{})),
          encode(Request(Retire{}))};
}
std::vector<std::string> reply_bodies() {
  return {encode(Reply(Assigned{2, 3, 8, 1, 4, 1, 2, "node-a", 0x0123456789abcdef, true, "rank 1 left"})),
          encode(Reply(Gathered{{"a", "", "ccc"}})),
          encode(Reply(Failed{ErrorCode::configuration, 3, "rank 3 failed"})),
          encode(Reply(ComeAgain{})),
          encode(Reply(Again{"rank 2 ended"})),
          encode(Reply(AskPresence{})),
          encode(Reply(AskCommits{})),
          encode(Reply(Boundary{1ull << 41})),
          encode(Reply(Over{}))};
}

TEST(Protocol, RequestsComeBackAsTheyWere) {
  const auto bodies = request_bodies();
  const auto join = std::get<Join>(decode_request(bodies[0]));
  EXPECT_EQ(join.host + join.machine + join.address, "node-akernelfe80::1%eth0");
  EXPECT_EQ(join.pid, 77u);
  EXPECT_EQ(join.parent, 70u);
  EXPECT_EQ(join.rank, 3);
  EXPECT_EQ(join.size, 8);
  EXPECT_EQ(join.local_rank, 1);
  EXPECT_EQ(join.patience, milliseconds(1500));
  EXPECT_EQ(join.age, milliseconds(800));
  const auto contribution = std::get<Contribution>(decode_request(bodies[1]));
  EXPECT_EQ(contribution.blob, std::string("\0blob", 5));
  EXPECT_EQ(contribution.patience, milliseconds(9));
  EXPECT_EQ(std::get<Leave>(decode_request(bodies[2])).port, 41234);
  EXPECT_EQ(std::get<Fail>(decode_request(bodies[3])).reason, "no luck");
  EXPECT_EQ(std::get<Fail>(decode_request(bodies[3])).rank, 5);
  EXPECT_TRUE(join.elastic);
  EXPECT_TRUE(std::holds_alternative<Arrive>(decode_request(bodies[4])));
  EXPECT_EQ(std::get<Enter>(decode_request(bodies[5])).generation, 6u);
  EXPECT_TRUE(std::holds_alternative<Begun>(decode_request(bodies[6])));
  EXPECT_EQ(std::get<Commits>(decode_request(bodies[7])).count, 1ull << 40);
  EXPECT_TRUE(std::holds_alternative<Present>(decode_request(bodies[8])));
  EXPECT_TRUE(std::holds_alternative<Done>(decode_request(bodies[9])));
  EXPECT_TRUE(std::holds_alternative<Retire>(decode_request(bodies[10])));
}

TEST(Protocol, RepliesComeBackAsTheyWere) {
  const auto bodies = reply_bodies();
  const auto assigned = std::get<Assigned>(decode_reply(bodies[0]));
  EXPECT_EQ(assigned.generation, 2u);
  EXPECT_EQ(assigned.rank, 3);
  EXPECT_EQ(assigned.size, 8);
  EXPECT_EQ(assigned.local_rank, 1);
  EXPECT_EQ(assigned.local_size, 4);
  EXPECT_EQ(assigned.node_rank, 1);
  EXPECT_EQ(assigned.node_count, 2);
  EXPECT_EQ(assigned.host, "node-a");
  EXPECT_EQ(assigned.incarnation, 0x0123456789abcdef);
  EXPECT_EQ(std::get<Gathered>(decode_reply(bodies[1])).blobs, (std::vector<std::string>{"a", "", "ccc"}));
  const auto failed = std::get<Failed>(decode_reply(bodies[2]));
  EXPECT_EQ(failed.code, ErrorCode::configuration);
  EXPECT_EQ(failed.rank, 3);
  EXPECT_EQ(failed.message, "rank 3 failed");
  EXPECT_TRUE(assigned.begun);
  EXPECT_EQ(assigned.change, "rank 1 left");
  EXPECT_TRUE(std::holds_alternative<ComeAgain>(decode_reply(bodies[3])));
  EXPECT_EQ(std::get<Again>(decode_reply(bodies[4])).reason, "rank 2 ended");
  EXPECT_TRUE(std::holds_alternative<AskPresence>(decode_reply(bodies[5])));
  EXPECT_TRUE(std::holds_alternative<AskCommits>(decode_reply(bodies[6])));
  EXPECT_EQ(std::get<Boundary>(decode_reply(bodies[7])).commit, 1ull << 41);
  EXPECT_TRUE(std::holds_alternative<Over>(decode_reply(bodies[8])));
}

TEST(Protocol, NamesAreSafeToPrint) {
  Join join;
  join.host = "node\x1b[2J";
  EXPECT_EQ(std::get<Join>(decode_request(encode(Request(join)))).host, "node?[2J");
}

template <class Decode>
std::string refusal(Decode decode, const std::string& body) {
  try {
    decode(body);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::protocol);
    return error.what();
  }
  return "accepted";
}

TEST(Protocol, EveryTruncationAndEveryExtraByteIsRefused) {
  for (const std::string& body : request_bodies()) {
    for (std::size_t bytes = 0; bytes < body.size(); bytes++)
      EXPECT_NE(refusal(decode_request, body.substr(0, bytes)), "accepted") << bytes;
    EXPECT_THAT(refusal(decode_request, body + "x"), HasSubstr("1 bytes too many"));
  }
  for (const std::string& body : reply_bodies()) {
    for (std::size_t bytes = 0; bytes < body.size(); bytes++)
      EXPECT_NE(refusal(decode_reply, body.substr(0, bytes)), "accepted") << bytes;
    EXPECT_THAT(refusal(decode_reply, body + "x"), HasSubstr("1 bytes too many"));
  }
}

TEST(Protocol, ValuesOutOfRangeAreRefusedByName) {
  const auto request = [](const Join& join) { return refusal(decode_request, encode(Request(join))); };
  Join join;
  join.rank = kMaxRanks;
  EXPECT_THAT(request(join), HasSubstr("rank 1048576 is not between -1 and 1048575"));
  join.rank = -2;
  EXPECT_THAT(request(join), HasSubstr("rank -2"));
  join = {};
  join.size = 0;
  EXPECT_THAT(request(join), HasSubstr("world size 0"));
  join.size = kMaxRanks + 1;
  EXPECT_THAT(request(join), HasSubstr("world size 1048577"));
  join = {};
  join.host = std::string(256, 'h');
  EXPECT_THAT(request(join), HasSubstr("claims 256 bytes where 255 are allowed"));
  join = {};
  join.patience = std::chrono::hours(1000);
  EXPECT_EQ(std::get<Join>(decode_request(encode(Request(join)))).patience, std::chrono::hours(24));

  EXPECT_THAT(refusal(decode_request, encode(Reply(Gathered{}))), HasSubstr("unknown request 18"));
  EXPECT_THAT(refusal(decode_reply, encode(Request(Leave{}))), HasSubstr("unknown reply 3"));
  Assigned assigned;
  assigned.rank = 1;
  EXPECT_THAT(refusal(decode_reply, encode(Reply(assigned))), HasSubstr("rank 1"));
  EXPECT_THAT(refusal(decode_reply, encode(Reply(Failed{ErrorCode(99), -1, ""}))), HasSubstr("error code 99"));
}

// A claimed length or count must not cost memory before the bytes have arrived.
TEST(Protocol, ClaimsAreCheckedBeforeMemoryIsTaken) {
  Writer blobs, blob;
  blobs.u8(18).u32(kMaxRanks).u32(kMaxRanks).raw("only this");
  EXPECT_THAT(refusal(decode_reply, blobs.bytes()), HasSubstr("claims 1048576 blobs in 9 bytes"));
  blob.u8(2).u32(0xffffffff).raw("only this");
  EXPECT_THAT(refusal(decode_request, blob.bytes()), HasSubstr("claims 4294967295 bytes where 65536 are allowed"));
}

// Random bytes, and valid messages with a few changed bytes, must give an error or a message, and nothing else.
TEST(Protocol, SurvivesGarbage) {
  std::mt19937 random(7);
  const auto byte = [&] { return char(random() & 0xff); };
  std::vector<std::string> seeds = request_bodies();
  for (std::string& body : reply_bodies()) seeds.push_back(std::move(body));
  for (int round = 0; round < 20000; round++) {
    std::string body = seeds[random() % seeds.size()];
    if (round % 4 == 0) body.assign(random() % 80, '\0');
    for (char& c : body)
      if (round % 4 == 0 || random() % 8 == 0) c = byte();
    refusal(decode_request, body);
    refusal(decode_reply, body);
  }
}

}  // namespace
}  // namespace anello::rendezvous
