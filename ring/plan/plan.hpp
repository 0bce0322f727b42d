// A plan: one rank's part of a collective operation, as data. An algorithm makes the plan with a PlanBuilder
// (plan_builder.hpp), and ring/run carries it out. Pure: does not depend on links, buffers, clocks or element types. A
// plan never changes, so it is cached, and threads share it freely.
//
// Counts and positions are in elements. A step's range is in the operation's own coordinates, which are those of the
// larger of the two buffers. Element e of the operation is element e - input_base of the input, and element e -
// output_base of the output. In place means that input and output are the same memory, element by element of the
// operation. A plan is correct in place and out of place, unless it is `out_of_place_only`. No plan writes to the
// input.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace anello::plan {

enum class Act : std::uint8_t {
  send,    // sends `place` to the stream's peer
  copy,    // writes the peer's data to `place`
  reduce,  // place = `sources`' one operand combined with the peer's data
  // Local work: place = the sources combined in their order; a single source is copied. If that source is `place`
  // itself and elements are sent in a narrower type, it is rounded to that type.
  fold,
};
// `scratch` is memory that the executor provides, for this plan only.
enum class Space : std::uint8_t { input, output, scratch };

struct Range {
  std::uint64_t begin = 0, count = 0;
  std::uint64_t end() const { return begin + count; }
  friend bool operator==(const Range&, const Range&) = default;
};

// The memory of a step's range: element range.begin of the operation is element `at` of `space`.
struct Operand {
  Space space = Space::output;
  std::uint64_t at = 0;
  friend bool operator==(const Operand&, const Operand&) = default;
};

// A dependency on another step. `whole`: the step starts after the other step has ended. Otherwise the step may process
// element e after the other step has processed element e, and any element after the other step has ended.
struct Dep {
  std::uint32_t step = 0;
  bool whole = false;
  friend bool operator==(const Dep&, const Dep&) = default;
};

struct Step {
  Range range;
  Operand place;                   // a send reads it; all other steps write it
  std::uint32_t first_source = 0;  // index in Plan::sources
  std::uint32_t sources = 0;       // reduce: 1, the local operand; fold: at least 1; send and copy: 0
  std::uint32_t first_dep = 0;     // index in Plan::deps
  std::uint32_t deps = 0;
  std::uint32_t stream = 0;
  std::uint32_t order = 0;  // position in program order; of two possible steps, the one with the lower order goes first
  Act act = Act::send;
  bool incoming_left = false;  // reduce: the peer's data is the left operand
  // For reduce and fold: the written value has every contribution. If the operation is an average, this step also
  // divides.
  bool makes_result = false;
  bool reply = false;  // the step reduces, sends or receives a reply: see reply_elems
};

// Steps that happen one after another: all sends to a peer, all receives from a peer, or the local work.
struct Stream {
  enum class Kind : std::uint8_t { send, receive, local };
  std::uint32_t first = 0, end = 0;  // the stream's steps: [first, end), never empty
  std::int32_t peer = -1;            // -1: local work
  Kind kind = Kind::local;
};

struct Plan {
  int rank = 0, world = 1;
  std::uint64_t input_elems = 0;                     // elements that are read from the caller's input
  std::uint64_t output_elems = 0;                    // elements that are written to the caller's output
  std::uint64_t input_base = 0;                      // the operation's element that is element 0 of the input
  std::uint64_t output_base = 0;                     // the operation's element that is element 0 of the output
  std::uint64_t scratch_elems = 0;                   // memory that the executor must provide
  std::uint64_t sent_elems = 0, received_elems = 0;  // sums over all steps
  bool reduces = false;                              // true if a step reduces or folds
  bool out_of_place_only = false;  // if true, every range begins at 0, and its operands may be anywhere in their spaces
  // True if two ranks send to each other the contents of memory, and each rank then reduces the other's data into its
  // own memory. A rank may write into this memory only after the peer has copied it. So links must copy the data when
  // they send it: if they let the peer read the rank's memory, each of the two ranks would wait for the other.
  bool pairwise = false;
  // Replies. In an exchange of two ranks, each reduces the other's input, and sends the result back. A link through
  // memory allows a rank to write the result over the other rank's contribution in the link's buffer: this is a reply.
  // Three kinds of steps are marked `reply`: the reduction, the send of its result, and the copy that receives a
  // result. reply_elems is the maximum number of elements that a rank has sent and not yet received back; 0: this plan
  // is not such an exchange.
  std::uint64_t reply_elems = 0;
  std::vector<Step> steps;      // grouped by stream; within a stream, in program order
  std::vector<Stream> streams;  // sends, then receives, then local work; at most one stream for each peer and kind
  std::vector<Operand> sources;
  std::vector<Dep> deps;  // never on a step of the same stream, because the order within a stream is fixed

  // Element e of the operation is element e - base(space) of the space. Scratch has no coordinates in the operation.
  std::uint64_t base(Space space) const {
    if (space == Space::scratch) return 0;
    return space == Space::input ? input_base : output_base;
  }
};

// Returns the plan as text, for people, golden tests and debug logs: one line for the plan, then one for each step.
// "after 3" is a streaming dependency on step 3; "after 3!" is a dependency on its end.
std::string to_text(const Plan& plan);

}  // namespace anello::plan
