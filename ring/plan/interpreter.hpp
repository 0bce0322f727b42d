// The inside of check(): plans run on symbols. Values is what the symbols mean, check_form looks at one plan alone,
// Interpreter runs those of all ranks. All of them throw Wrong.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ring/plan/plan.hpp"

namespace anello::plan {

class Wrong : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Symbols, each a number: an element of a rank's input, the combination of two symbols, or a result. Equal numbers mean
// equal bits, since both come from the same operands in the same order.
class Values {
 public:
  static constexpr int kNone = -1;  // what memory holds before it is written

  int input(int rank, std::uint64_t element);
  int combine(int left, int right);
  int result(int value);              // what a reduction makes of it at its end, such as a quotient
  std::string text(int value) const;  // "result of ((x0[5] + x1[5]) + x2[5])"
  // Is it the result of this element of every rank's input, each once?
  bool each_once(int value, int world, std::uint64_t element) const;

 private:
  struct Value {
    int left = kNone, right = kNone;  // without right: a result; without both: an input
    int rank = 0;
    std::uint64_t element = 0;
  };
  void count(int value, std::uint64_t element, std::vector<int>& times) const;
  std::vector<Value> values_;
  std::map<std::pair<int, std::uint64_t>, int> inputs_;
  std::map<std::pair<int, int>, int> combined_;
};

void check_form(const Plan& plan);

class Interpreter {
 public:
  // `ranks` must be well formed, and outlive this.
  Interpreter(std::span<const Plan> ranks, bool in_place, std::uint64_t in_flight_elems, Values& values);
  void run();
  // What a rank's output holds for this element of the operation.
  int output(int rank, std::uint64_t element) const;

 private:
  using Clock = std::vector<std::uint32_t>;  // for each stream of the rank: how many of its events are known to be over
  struct Event {
    std::uint32_t stream = 0, number = 0;  // numbered from 1 within its stream; 0: before the beginning
  };
  struct Cell {
    int value = Values::kNone;
    Event writer;
    std::vector<Event> readers;  // since it was written, the last of each stream
  };
  struct Message {
    std::uint64_t element = 0;
    int value = 0;
  };
  using Link = std::deque<Message>;
  struct Head {  // how far a stream has come
    std::uint32_t stream = 0, step = 0, end = 0;
    std::uint64_t elems = 0;  // of that step
    Clock clock;
  };
  struct Rank {
    const Plan* plan = nullptr;
    std::vector<Head> heads;
    std::vector<std::vector<Clock>> history;  // step, element: the clock once it was done
    std::array<std::vector<Cell>, 3> memory;  // by Space; in place the output stands for both buffers
  };

  void set_up(Rank& rank, const Plan& plan);
  bool advance(Rank& rank, Head& head);
  void learn(const Rank& rank, Head& head, Dep dep) const;
  int incoming(Link& link, const Rank& rank, const Head& head) const;
  int written(Rank& rank, const Head& head, int incoming);
  int combined(Rank& rank, const Head& head, int incoming);
  Cell& cell(Rank& rank, const Head& head, Operand operand) const;
  int read(Rank& rank, const Head& head, Operand operand) const;
  void write(Rank& rank, const Head& head, Operand operand, int value) const;
  void must_follow(const Rank& rank, const Head& head, Event earlier, const char* what) const;
  Link& link(int from, int to) { return links_[std::size_t(from) * ranks_.size() + std::size_t(to)]; }
  void all_over() const;

  bool in_place_;
  std::uint64_t capacity_;
  Values& values_;
  std::vector<Rank> ranks_;
  std::vector<Link> links_;
};

}  // namespace anello::plan
