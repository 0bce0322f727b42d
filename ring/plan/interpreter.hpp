// The implementation of check() (check.hpp), which runs plans on symbols. Values gives the symbols their meaning,
// check_form() checks one plan alone, and Interpreter runs the plans of all ranks. All three throw Wrong.
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

// The symbols. Each is a number, and stands for an element of a rank's input, the combination of two symbols, or a
// result. Equal numbers mean equal bits, because they stand for the same operands combined in the same order.
class Values {
 public:
  static constexpr int kNone = -1;  // the contents of memory before it is written

  int input(int rank, std::uint64_t element);
  int combine(int left, int right);
  int result(int value);              // returns the symbol for a result made of a reduction's value, such as a quotient
  std::string text(int value) const;  // for example "result of ((x0[5] + x1[5]) + x2[5])"
  // True if the value is the result of this element of every rank's input, with each input exactly once.
  bool each_once(int value, int world, std::uint64_t element) const;

 private:
  struct Value {
    int left = kNone, right = kNone;  // a result has no `right`; an input has neither `left` nor `right`
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
  // `ranks` must be well formed, and must outlive this object.
  Interpreter(std::span<const Plan> ranks, bool in_place, std::uint64_t in_flight_elems, Values& values);
  void run();
  // Returns the value in a rank's output at this element of the operation.
  int output(int rank, std::uint64_t element) const;

 private:
  // By stream of the rank: how many of the stream's events have certainly ended.
  using Clock = std::vector<std::uint32_t>;
  struct Event {
    std::uint32_t stream = 0, number = 0;  // `number`: counts from 1 within its stream; 0: before the beginning
  };
  struct Cell {
    int value = Values::kNone;
    Event writer;
    std::vector<Event> readers;  // the last read by each stream since the element was written
  };
  struct Message {
    std::uint64_t element = 0;
    int value = 0;
  };
  using Link = std::deque<Message>;
  struct Head {  // the progress of a stream
    std::uint32_t stream = 0, step = 0, end = 0;
    std::uint64_t elems = 0;  // elements of the current step that are done
    Clock clock;
  };
  struct Rank {
    const Plan* plan = nullptr;
    std::vector<Head> heads;
    std::vector<std::vector<Clock>> history;  // by step and element: the clock when the element was done
    std::array<std::vector<Cell>, 3> memory;  // by Space; in place, `output` is used for both buffers
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
