// The bytes that processes of one world exchange, on the wire and in shared memory. These bytes may change only
// together with the version that the handshake compares. Processes with different versions refuse each other with an
// error that says so. ANELLO_GOLDEN=write writes wire_layout.txt.
#include <gmock/gmock.h>

#include <cstddef>
#include <fstream>
#include <iterator>

#include "ring/agenda/message.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"
#include "ring/failure/control_message.hpp"
#include "ring/net/handshake.hpp"
#include "ring/shm/shm_link.hpp"
#include "ring/world/peer_info.hpp"

namespace anello::world {
namespace {

using failure::ControlMessage;
using failure::StallAnswer;
using std::chrono::milliseconds;
using Type = ControlMessage::Type;

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const char byte : bytes) {
    const auto value = std::size_t(static_cast<unsigned char>(byte));
    digits += {kDigits[value / 16], kDigits[value % 16]};
  }
  return digits;
}

// Every field has a different value.
NamedSignature call() {
  return {Signature{.group = 0x11,
                    .generation = 0x12,
                    .sequence = 0x13,
                    .count = 0x14,
                    .slab_elems = 0x15,
                    .results = 0x16,
                    .fingerprint = 0x17,
                    .root = 0x18,
                    .kind = Kind::reduce,
                    .op = Op::max,
                    .dtype = DType::f32,
                    .wire = DType::bf16,
                    .algorithm = Algorithm::tree,
                    .hidden = {.known = true, .postscale = 3, .token = 0x19}},
          "loss"};
}

ControlMessage message(Type type) {
  ControlMessage message{.origin = 1, .number = 2, .type = type};
  message.verdict = {ErrorCode::rank_silent, 3, "why"};
  message.straggler = {.rank = 4, .own = milliseconds(5), .theirs = milliseconds(6), .period = milliseconds(7)};
  message.group = 8;
  message.completed = 9;
  message.by_exception = true;
  message.members_of_group = 10;
  message.stall = {.group = 0x21, .sequence = 0x22, .period = milliseconds(0x23), .overdue = true, .attempt = 0x24};
  message.group_name = "name";
  message.members = {0, 2, 4, 5};
  message.answer = {
      .state = StallAnswer::State::other_order, .last = call(), .waits_in_group = "other", .reason = "wrong"};
  message.contradicted = {1, 2};
  if (type == Type::goodbye || type == Type::waiting || type == Type::stalled || type == Type::called ||
      type == Type::refused)
    message.calls = {call()};
  return message;
}

std::string layout_of_pipes() {
  using shm::PipeState;
  using Slot = PipeState::Slot;
  using Reference = PipeState::Reference;
  return text("pipe: ", sizeof(PipeState), " bytes, written ", offsetof(PipeState, written), ", referred ",
              offsetof(PipeState, referred), ", filled ", offsetof(PipeState, filled), ", revoked ",
              offsetof(PipeState, revoked), ", read ", offsetof(PipeState, read), ", reader_sleeps ",
              offsetof(PipeState, reader_sleeps), ", writer_sleeps ", offsetof(PipeState, writer_sleeps), "\n",
              "references: at ", offsetof(PipeState, references), ", ", PipeState::kReferences, " of ",
              sizeof(Reference), " bytes, begin ", offsetof(Reference, begin), ", place ", offsetof(Reference, place),
              "\n", "slots: at ", offsetof(PipeState, slots), ", ", PipeState::kSlots, " of ", sizeof(Slot),
              " bytes, head ", offsetof(Slot, head), ", bytes ", offsetof(Slot, bytes), "\n", "file of two pipes of ",
              4096, ": ", shm::ShmLink::file_bytes(4096), " bytes\n");
}

std::string layout_of_windows() {
  using shm::WindowState;
  return text("window: ", sizeof(WindowState), " bytes, posted ", offsetof(WindowState, posted), ", signature ",
              offsetof(WindowState, signature), ", version ", offsetof(WindowState, version), ", input ",
              offsetof(WindowState, input), ", output ", offsetof(WindowState, output), ", ended ",
              offsetof(WindowState, ended), ", begun ", offsetof(WindowState, begun), ", sleeps ",
              offsetof(WindowState, sleeps), ", withdrawn ", offsetof(WindowState, withdrawn), ", files ",
              offsetof(WindowState, files), "\n");
}

// Describes an agenda's items: every type, with every field.
std::string layout_of_items() {
  using agenda::Item;
  std::string all;
  for (const auto type : {Item::Type::ready, Item::Type::joined, Item::Type::run, Item::Type::refused,
                          Item::Type::all_joined, Item::Type::run_with_next}) {
    const Item item{.type = type,
                    .number = 1,
                    .key = "k",
                    .description = agenda::Description{.verb = agenda::Verb::allreduce,
                                                       .op = Op::max,
                                                       .root = 2,
                                                       .wire = DType::bf16,
                                                       .prescale = 3,
                                                       .postscale = 4,
                                                       .on_gpu = true,
                                                       .arrays = {{DType::f32, {5, 6}}}},
                    .described_by = 7,
                    .sizes = {{8, {9}}},
                    .refusal = agenda::Refusal{10, "why"},
                    .absent = 11,
                    .last = 12};
    Writer out;
    encode(item, out);
    all += text("agenda item ", int(type), ": ", hex(out.bytes()), "\n");
  }
  return all;
}

std::string layout() {
  constexpr std::string_view kNames[] = {"proposal", "decision", "goodbye", "waiting", "stalled",
                                         "answer",   "slow",     "called",  "refused"};
  std::string all = text("version ", net::kProtocolVersion, "\n");
  for (std::size_t k = 0; k < std::size(kNames); k++)
    all += text(kNames[k], ": ", hex(encode(message(Type(k + 1)))), "\n");
  const PeerInfo me{.version = "v",
                    .plans = 1,
                    .endpoint = {"a", 2, "h", {{"b", 5}}},
                    .settings = "s",
                    .node_rank = 3,
                    .cores = {"c", 4},
                    .kernel = "k",
                    .memory = "m",
                    .table = "t"};
  return all + text("peer: ", hex(encode(me)), "\n", layout_of_items(), layout_of_pipes(), layout_of_windows());
}

TEST(Wire, LayoutsChangeOnlyTogetherWithTheVersion) {
  if (environment("ANELLO_GOLDEN") == "write") std::ofstream(ANELLO_WIRE_LAYOUT) << layout();
  std::ifstream file(ANELLO_WIRE_LAYOUT);
  const std::string known{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(layout(), known) << "raise kProtocolVersion in ring/net/handshake.hpp; then ANELLO_GOLDEN=write writes the "
                                "new layout";
}

}  // namespace
}  // namespace anello::world
