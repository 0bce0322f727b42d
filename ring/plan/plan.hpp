// A plan: one rank's part of a collective operation, as data. An algorithm emits it through a PlanBuilder
// (plan_builder.hpp); run/ carries it out. Pure: it knows no link, no buffer, no clock and no element type. Immutable
// once made, so it is cached, and threads share it freely.
//
// Counts and positions are elements. A step's range lies in the operation's own coordinates, which are those of the
// larger of the two buffers: element e of the operation is element e - input_base of the input and element
// e - output_base of the output. In place means that both are the same memory, element by element of the operation; a
// plan is right in place and out of place, unless it is `out_of_place_only`. The input is never written.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace anello::plan {

enum class Act : std::uint8_t {
  send,    // place goes to the stream's peer
  copy,    // what the peer sends goes to place
  reduce,  // place = the one source combined with what the peer sends
  fold,    // local: place = the sources combined in their order; one source is copied. The place itself as the one
           // source: it is rounded to what would be sent, where elements travel as a narrower type
};
enum class Space : std::uint8_t { input, output, scratch };  // scratch: memory of the executor, for one plan only

struct Range {
  std::uint64_t begin = 0, count = 0;
  std::uint64_t end() const { return begin + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Where a step's range lies: element range.begin of the operation is element `at` of the space.
struct Operand {
  Space space = Space::output;
  std::uint64_t at = 0;
  friend bool operator==(const Operand&, const Operand&) = default;
};

// What a step waits for: with `whole` the end of another step; otherwise it may go as far as that one has come (not
// past element e of the operation before the other has done e), and everywhere once the other has ended.
struct Dep {
  std::uint32_t step = 0;
  bool whole = false;
  friend bool operator==(const Dep&, const Dep&) = default;
};

struct Step {
  Range range;
  Operand place;                   // send: what is read; the others: what is written
  std::uint32_t first_source = 0;  // in Plan::sources
  std::uint32_t sources = 0;       // reduce: 1, the local operand; fold: at least 1; send and copy: 0
  std::uint32_t first_dep = 0;     // in Plan::deps
  std::uint32_t deps = 0;
  std::uint32_t stream = 0;
  std::uint32_t order = 0;  // position in the program that emitted it: of two possible steps, the lower goes first
  Act act = Act::send;
  bool incoming_left = false;  // reduce: what the peer sends is the left operand
  bool makes_result = false;   // reduce and fold: what is written has every contribution; an average is divided here
  bool reply = false;  // reduces, sends or receives a result that goes back to where its input is from: see reply_elems
};

// Steps that happen one after another: the bytes to a peer, the bytes from a peer, or local work.
struct Stream {
  enum class Kind : std::uint8_t { send, receive, local };
  std::uint32_t first = 0, end = 0;  // its steps: [first, end), never empty
  std::int32_t peer = -1;            // -1: local
  Kind kind = Kind::local;
};

struct Plan {
  int rank = 0, world = 1;
  std::uint64_t input_elems = 0;                     // what is read of the caller's input
  std::uint64_t output_elems = 0;                    // what is written of the caller's output
  std::uint64_t input_base = 0;                      // the operation's element that is element 0 of the input
  std::uint64_t output_base = 0;                     // the same for the output
  std::uint64_t scratch_elems = 0;                   // what the executor must provide
  std::uint64_t sent_elems = 0, received_elems = 0;  // by all its steps
  bool reduces = false;                              // some step reduces or folds
  bool out_of_place_only = false;                    // every range begins at 0, and its operands lie anywhere
  bool pairwise = false;  // two ranks reduce into what they are sending to each other: links must hold some of it
  // Two ranks exchange: each reduces what the other one sends from its input, and sends the result back. A link through
  // memory may have the result written to where the contribution came in. Three kinds of steps are marked `reply`: the
  // reduction, the send of its result, and the copy that receives a result. reply_elems is the largest number of
  // elements that a rank has sent and not yet got back. 0: this plan is no such exchange.
  std::uint64_t reply_elems = 0;
  std::vector<Step> steps;      // grouped by stream, in program order within each
  std::vector<Stream> streams;  // sends, then receives, then local; one at most for each peer and kind
  std::vector<Operand> sources;
  std::vector<Dep> deps;  // never on a step of the same stream: its order is given

  // Element e of the operation is element e - base(space) of the space. Scratch has no place in the operation.
  std::uint64_t base(Space space) const {
    if (space == Space::scratch) return 0;
    return space == Space::input ? input_base : output_base;
  }
};

// For people, golden tests and debug logs: a line for the plan, then one a step. "after 3" is a streaming dependency
// on step 3, "after 3!" one on its end.
std::string to_text(const Plan& plan);

}  // namespace anello::plan
