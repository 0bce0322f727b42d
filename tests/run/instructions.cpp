// The program whose instructions instructions_test counts: allreduces of all ranks in one thread, by the real Driver
// and Execution or by the real MessageExecution, over links in memory that move no payload, with a reduction that does
// nothing. So the count is the engine's own work, the same on every CPU, without memcpy and the kernels. The arguments
// are a line of instructions.txt.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <vector>

#include "ring/algorithms/plans.hpp"
#include "ring/run/driver.hpp"
#include "ring/run/message_execution.hpp"

namespace anello::run {
namespace {

// One direction between two ranks. Only the signature, which comes before the payload, is really transferred.
struct Pipe {
  static constexpr std::uint64_t kCapacityBytes = 256 << 10;
  std::array<std::byte, kSignatureBytes> head;
  std::uint64_t sent = 0, received = 0;

  template <class Piece, class Carry>
  static std::size_t move(std::span<const Piece> pieces, std::uint64_t& position, std::uint64_t limit, Carry carry) {
    const std::uint64_t begin = position;
    for (const Piece piece : pieces) {
      const std::uint64_t bytes = std::min<std::uint64_t>(piece.size(), limit - position);
      if (position < kSignatureBytes && bytes > 0)
        carry(position, piece.first(std::min<std::uint64_t>(bytes, kSignatureBytes - position)));
      position += bytes;
    }
    return position - begin;
  }
};

class PipeLink final : public link::Link {
 public:
  PipeLink(Pipe& out, Pipe& in) : out_(out), in_(in) {}
  std::size_t send_from(std::span<const ConstBytes> pieces) override {
    return Pipe::move(
        pieces, out_.sent, out_.received + Pipe::kCapacityBytes,
        [this](std::uint64_t at, ConstBytes part) { std::memcpy(out_.head.data() + at, part.data(), part.size()); });
  }
  std::size_t recv_into(std::span<const Bytes> pieces) override {
    return Pipe::move(pieces, in_.received, in_.sent, [this](std::uint64_t at, Bytes part) {
      std::memcpy(part.data(), in_.head.data() + at, part.size());
    });
  }
  bool has_arrived() override { return in_.received < in_.sent; }
  bool want(link::Wanted /*wanted*/, link::Waiter& /*waiter*/) override { return true; }

 private:
  Pipe &out_, &in_;
};

struct Rank {
  plan::Plan plan;
  std::vector<std::byte> memory;
  std::vector<std::unique_ptr<PipeLink>> owned;
  std::vector<link::Link*> links;
  Explain explain = [](int, const Signature&) { return Error(ErrorCode::mismatch, "signatures differ"); };
  Execution execution;
  Driver driver{explain};
  bool by_message = false;  // uses MessageExecution and not Driver and Execution
  MessageExecution messages{explain};
  Buffer buffer;
  Load load;  // of the messages

  bool done() const { return by_message ? messages.done() : execution.done(); }
};

constexpr Arithmetic kNothing{2, [](void*, const void*, const void*, std::size_t) {}, 2};

struct Ranks {
  std::vector<std::unique_ptr<Rank>> all;
  std::vector<Pipe> pipes;
  Signature signature;

  Ranks(Algorithm algorithm, int world, std::uint64_t bytes) : pipes(std::size_t(world) * std::size_t(world)) {
    signature.count = bytes / sizeof(float);
    const auto pipe = [&](int from, int to) -> Pipe& {
      return pipes[std::size_t(from) * std::size_t(world) + std::size_t(to)];
    };
    for (int r = 0; r < world; r++) {
      Rank& rank = *all.emplace_back(std::make_unique<Rank>());
      rank.plan = algorithms::plan_allreduce(algorithm, {r, world, signature.count});
      rank.memory.resize(bytes);
      rank.by_message = MessageExecution::suits(rank.plan, kNothing);
      for (int other = 0; other < world; other++) {
        rank.owned.push_back(std::make_unique<PipeLink>(pipe(r, other), pipe(other, r)));
        rank.links.push_back(rank.owned.back().get());
      }
    }
  }

  void allreduce() {
    for (Pipe& pipe : pipes) pipe.sent = pipe.received = 0;
    for (const auto& rank : all) {
      rank->buffer = Buffer(rank->memory.data(), signature.count);
      if (rank->by_message) {
        rank->load = {.plan = &rank->plan,
                      .arithmetic = &kNothing,
                      .input = &rank->buffer,
                      .output = &rank->buffer,
                      .signature = &signature,
                      .links = rank->links};
        rank->messages.begin(rank->load);
      } else {
        rank->execution.start(rank->plan, kNothing, rank->buffer, rank->buffer);
        rank->driver.start(rank->execution, signature, rank->links);
      }
    }
    for (bool done = false; !done;) {
      done = true;
      for (const auto& rank : all) {
        if (!rank->done()) rank->by_message ? rank->messages.pass() : rank->driver.pass();
        done &= rank->done();
      }
    }
  }
};

}  // namespace
}  // namespace anello::run

// When Highway's library is loaded, it measures the clock with an instruction (rdtscp) that valgrind 3.19 refuses if
// the processor does not list it. Nothing here needs that measurement.
namespace hwy::platform {
double TimerResolution() {
  return 1;
}
}  // namespace hwy::platform

// Callgrind counts only inside of the function with this name.
extern "C" [[gnu::noinline]] void counted(anello::run::Ranks& ranks, int operations) {
  for (int i = 0; i < operations; i++) ranks.allreduce();
}

int main(int argc, char** argv) {
  anello::Algorithm algorithm{};
  if (argc != 5 || !anello::parse(argv[1], algorithm)) {
    std::cerr << "usage: instructions ALGORITHM RANKS BYTES OPERATIONS\n";
    return 2;
  }
  anello::run::Ranks ranks(algorithm, std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10));
  ranks.allreduce();  // the first call allocates memory and fills caches
  counted(ranks, std::atoi(argv[4]));
}
