// Limits a process's searches for the successor of its server, until it trains again. The limit for one address grows
// with each search: with slow round trips, a process would otherwise never reach a successor that it finds. A process
// that waits at a successor does not search.
#pragma once
#include <algorithm>
#include <chrono>
#include <utility>

namespace anello::elastic {

class SearchTime {
 public:
  using Time = std::chrono::milliseconds;
  SearchTime(Time limit, Time each, Time most) : limit_(limit), first_(each), most_(most), each_(each) {}

  // Call this at the beginning of each search. Returns the limit for one address.
  Time for_each_address() { return std::exchange(each_, std::min(2 * each_, most_)); }
  void spend(Time time) { spent_ += time; }
  Time left() const { return std::max(limit_ - spent_, Time(0)); }
  void begin_anew() {
    spent_ = Time(0);
    each_ = first_;
  }

 private:
  const Time limit_, first_, most_;
  Time each_, spent_{0};
};

}  // namespace anello::elastic
