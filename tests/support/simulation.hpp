// A world in memory: the Driver and Execution of every rank, or its MessageExecution, over links that hold few bytes
// and deliver late and in small pieces. Ranks may be slow or stand still, and the clock is simulated. Groups have
// separate links, and a rank serves its groups in turn. Everything follows from one seed. One thread. In each tick of
// the clock one rank, drawn at random, makes one pass in one of its groups.
#pragma once
#include <anello/error.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ring/run/driver.hpp"
#include "ring/run/message_execution.hpp"
#include "tests/support/random.hpp"

namespace anello {

// The difficulties of links and ranks; times in ticks.
struct Weather {
  std::uint64_t capacity_bytes = 1000;  // capacity of a link, each way
  std::uint64_t max_delay = 0;          // from the send of a byte until it can be received
  int short_percent = 0;                // percentage of moves that are shortened
  int refused_percent = 0;              // percentage of moves that move nothing, though they could
  bool lends = false;                   // bytes count as sent only when they have been received
  bool shows_room = false;              // computed bytes are written directly to a link's memory
  bool shows = false;                   // received bytes can be read in the link's memory
  bool joins = true;                    // short messages are sent in one piece
  int by_message_percent = 0;           // percentage of operations by short messages that use MessageExecution
  std::uint64_t max_lazy = 1;           // a rank uses one of n turns; n is drawn for each rank, up to this
  int stalls = 0;                       // number of pauses in which a rank makes no pass or a link moves no byte
  std::uint64_t longest_stall = 0;
};
Weather draw_weather(Random& random);

// A fault on the way from one rank to another, after this number of bytes has been sent.
struct Fault {
  enum class Kind {
    none,
    drop,     // both ends see that the connection is broken; bytes on their way are lost
    close,    // bytes on their way arrive, then the end; nothing more can be sent
    garbage,  // a bit of the next byte is flipped
    stall,    // nothing moves any more, and neither end sees a reason
  };
  Kind kind = Kind::none;
  int from = 0, to = 1;
  std::uint64_t after_bytes = 0;
};

// One rank's part of an operation. The objects that the pointers refer to must outlive the simulation.
struct Task {
  const plan::Plan* plan = nullptr;
  run::Arithmetic arithmetic;
  run::Buffer input, output;
  Signature signature;
  run::Scaling scaling = {}, input_scaling = {};
  std::size_t group = 0;
  bool blocks = true;  // the next task is submitted when this task is done; else at once
};

class Simulation {
 public:
  using Groups = std::vector<std::vector<int>>;  // the ranks of each group
  // `program` holds every rank's tasks in the order of their submission. Without groups, all ranks are one group.
  Simulation(std::vector<std::vector<Task>> program, const Weather& weather, const Fault& fault, std::uint64_t seed,
             Groups groups = {});
  ~Simulation();

  struct Outcome {
    std::vector<std::size_t> completed;   // number of completed tasks, by rank
    std::vector<std::vector<bool>> done;  // by rank and task: whether the task is done
    std::optional<Error> error;           // the first error that a rank throws; it ends the world
    int noticed_by = -1;
    bool stuck = false;            // nothing can move any more, although no rank sees a reason
    std::uint64_t bytes_left = 0;  // bytes left on links without a fault
    bool all_done = false;
  };
  Outcome run();

 private:
  class SimulatedLink;
  // The bytes from one rank to another.
  struct Pipe {
    struct Batch {
      std::uint64_t due;
      std::vector<std::byte> bytes;
    };
    std::deque<Batch> batches;
    std::uint64_t held = 0, sent = 0, received = 0;
    std::uint64_t reported = 0;  // as reported to the sender
    bool lends = false;
    std::uint64_t stalled_until = 0;
    bool closed = false, broken = false;
    std::size_t group = 0;
    int from = 0, to = 0;
  };
  struct Seat;
  struct Rank;

  void seat(std::size_t group, const std::vector<int>& members);
  Pipe& pipe(std::size_t group, int from, int to) { return pipes_.at({group, from, to}); }
  std::size_t send(Pipe& pipe, std::span<const ConstBytes> pieces);
  void push(Pipe& pipe, std::span<const ConstBytes> pieces);
  bool is_faulty(const Pipe& pipe) const;
  bool nears_fault(const Pipe& pipe) const;
  bool may_send(const Pipe& pipe) const;
  bool may_receive(const Pipe& pipe) const;
  std::uint64_t room(const Pipe& pipe) const;
  void add(Pipe& pipe, std::uint64_t bytes, std::span<const ConstBytes> pieces);
  std::uint64_t arrived(const Pipe& pipe) const;
  std::size_t receive(Pipe& pipe, std::span<const Bytes> pieces);
  static void take(Pipe& pipe, std::span<const Bytes> pieces, std::uint64_t bytes);
  static void copy(const Pipe& pipe, Bytes to);
  std::uint64_t shortened(std::uint64_t bytes);
  void strike(Pipe& pipe, std::vector<std::byte>& fresh);
  static void submit(Rank& rank);
  Seat* draw_seat(Rank& rank);
  void start(Seat& seat, const Task& task);
  bool is_woken(Seat& seat);
  bool pass(Rank& rank, Seat& seat);
  bool turn(Rank& rank);
  void draw_stalls();
  std::uint64_t patience() const;

  Weather weather_;
  Fault fault_;
  Random random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<std::tuple<std::size_t, int, int>, Pipe> pipes_;  // by group, sender and receiver
  std::uint64_t now_ = 0;
  link::Bell bell_;
  link::Waiter waiter_{link::WaitPolicy(), bell_};
};

}  // namespace anello
