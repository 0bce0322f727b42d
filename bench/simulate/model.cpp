#include "bench/simulate/model.hpp"

#include <algorithm>
#include <deque>
#include <queue>
#include <tuple>
#include <utility>

#include "ring/base/check.hpp"

namespace anello::bench {
namespace {

struct Event {
  enum class Kind : std::uint8_t { worked, first_byte, arrived };
  double at_us;
  std::uint64_t number;  // of two at one time, the one made first comes first
  Kind kind;
  std::uint32_t actor, stream;
  std::uint64_t elems;
  bool operator>(const Event& other) const { return std::tie(at_us, number) > std::tie(other.at_us, other.number); }
};

// Where a stream stands, as Execution's cursor.
struct Cursor {
  std::uint32_t step = 0, end = 0;
  std::uint32_t dep = 0;               // of the segment's dependencies, those before this one let it through
  bool ready = false;                  // the segment waits for the rank's time
  std::uint64_t done = 0;              // elements of the current step
  std::uint64_t arrived = 0;           // elements that wait to be received
  double link_free_us = 0;             // a local link carries one segment after another
  std::vector<std::uint32_t> waiting;  // streams that can go on only when this one has
};

struct Ready {
  bool sends;
  std::uint32_t order, stream;
  bool operator<(const Ready& other) const {  // less urgent
    return sends != other.sends ? other.sends : order > other.order;
  }
};

struct Rank {
  const Actor* actor = nullptr;
  std::vector<Cursor> cursors;
  std::priority_queue<Ready> ready;
  std::uint32_t core = 0;
  enum class State : std::uint8_t { idle, waiting, running } state = State::idle;
};

constexpr std::uint32_t kNobody = UINT32_MAX;

struct Core {
  bool busy = false;
  std::uint32_t last = kNobody;
};

struct Host {
  std::vector<Core> cores;
  std::deque<std::uint32_t> waiting;  // ranks that have something to do, and no core
  double out_free_us = 0, in_free_us = 0;
  double cores_busy_us = 0, out_busy_us = 0, in_busy_us = 0;
};

class Model {
 public:
  Model(const Cast& cast, const Cluster& cluster, std::uint64_t elem_bytes)
      : cluster_(cluster),
        elem_bytes_(elem_bytes),
        segment_elems_(std::max<std::uint64_t>(1, cluster.segment_bytes / elem_bytes)),
        hosts_(std::size_t(cast.hosts)),
        ranks_(cast.actors.size()) {
    for (Host& host : hosts_) host.cores.resize(std::size_t(cluster.cores_used()));
    for (std::size_t r = 0; r < ranks_.size(); r++) {
      const Plan& plan = cast.actors[r].plan;
      ranks_[r].actor = &cast.actors[r];
      ranks_[r].cursors.resize(plan.streams.size());
      for (std::size_t s = 0; s < plan.streams.size(); s++) {
        ranks_[r].cursors[s].step = plan.streams[s].first;
        ranks_[r].cursors[s].end = plan.streams[s].end;
      }
    }
  }

  Played run() {
    for (std::uint32_t r = 0; r < ranks_.size(); r++)
      for (std::uint32_t s = 0; s < ranks_[r].cursors.size(); s++) look(r, s);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_us_ = event.at_us;
      happen(event);
    }
    for (const Rank& rank : ranks_)
      for (const Cursor& cursor : rank.cursors) ANELLO_CHECK(cursor.step == cursor.end);
    return outcome();
  }

 private:
  void after(double us, Event::Kind kind, std::uint32_t r, std::uint32_t s, std::uint64_t elems) {
    events_.push({now_us_ + us, made_++, kind, r, s, elems});
  }
  double wire_us(std::uint64_t elems, double rate) const { return double(elems * elem_bytes_) / rate; }
  const Plan& plan(std::uint32_t r) const { return ranks_[r].actor->plan; }
  Host& host_of(std::uint32_t r) { return hosts_[std::size_t(ranks_[r].actor->host)]; }

  void happen(const Event& event) {
    switch (event.kind) {
      case Event::Kind::worked:
        return worked(event.actor, event.stream, event.elems);
      case Event::Kind::first_byte:
        return first_byte(event);
      case Event::Kind::arrived:
        ranks_[event.actor].cursors[event.stream].arrived += event.elems;
        return look(event.actor, event.stream);
    }
  }

  std::uint64_t segment(const Step& step, const Cursor& cursor) const {
    return std::min(segment_elems_, step.range.count - cursor.done);
  }

  // Execution's rule: what others have not yet done holds the segment back. Then the first of them is told.
  bool held_back(std::uint32_t r, std::uint32_t s, std::uint64_t end) {
    Cursor& cursor = ranks_[r].cursors[s];
    const Step& step = plan(r).steps[cursor.step];
    for (; cursor.dep < step.deps; cursor.dep++) {
      const Dep dep = plan(r).deps[step.first_dep + cursor.dep];
      const Step& other = plan(r).steps[dep.step];
      Cursor& theirs = ranks_[r].cursors[other.stream];
      if (theirs.step > dep.step) continue;
      const std::uint64_t reached = other.range.begin + (theirs.step == dep.step ? theirs.done : 0);
      if (!dep.whole && reached >= step.range.begin + end) continue;
      theirs.waiting.push_back(s);
      return true;
    }
    return false;
  }

  // Can the stream's next segment go? Then it queues for the rank's time.
  void look(std::uint32_t r, std::uint32_t s) {
    Cursor& cursor = ranks_[r].cursors[s];
    if (cursor.ready || cursor.step == cursor.end) return;
    const Step& step = plan(r).steps[cursor.step];
    const std::uint64_t elems = segment(step, cursor);
    if (plan(r).streams[s].kind == Stream::Kind::receive && cursor.arrived < elems) return;
    if (held_back(r, s, cursor.done + elems)) return;
    cursor.ready = true;
    ranks_[r].ready.push({step.act == Act::send, step.order, s});
    if (ranks_[r].state == Rank::State::idle) wake(r);
  }

  // Best on the core where it was, else on one that is nobody's.
  void wake(std::uint32_t r) {
    Host& host = host_of(r);
    const auto rank_core = [&](const Core& core) {
      return core.busy ? 3 : core.last == r ? 0 : core.last == kNobody ? 1 : 2;
    };
    const auto best = std::ranges::min_element(host.cores, {}, rank_core);
    if (best->busy) {
      ranks_[r].state = Rank::State::waiting;
      host.waiting.push_back(r);
      return;
    }
    ranks_[r].core = std::uint32_t(best - host.cores.begin());
    begin(r);
  }

  void begin(std::uint32_t r) {
    Core& core = host_of(r).cores[ranks_[r].core];
    core.busy = true;
    ranks_[r].state = Rank::State::running;
    const bool turns = core.last != r && core.last != kNobody;
    core.last = r;
    work(r, turns ? cluster_.switch_us : 0);
  }

  void work(std::uint32_t r, double already_us) {
    const std::uint32_t s = ranks_[r].ready.top().stream;
    ranks_[r].ready.pop();
    const Cursor& cursor = ranks_[r].cursors[s];
    const Step& step = plan(r).steps[cursor.step];
    const std::uint64_t elems = segment(step, cursor);
    const double us = already_us + core_us(step, elems);
    host_of(r).cores_busy_us += us;
    after(us, Event::Kind::worked, r, s, elems);
  }

  double core_us(const Step& step, std::uint64_t elems) const {
    const double copied = wire_us(elems, cluster_.copy_rate), reduced = wire_us(elems, cluster_.reduce_rate);
    if (step.act == Act::fold) return step.sources == 1 ? copied : (step.sources - 1) * reduced;
    return cluster_.message_us + copied + (step.act == Act::reduce ? reduced : 0);
  }

  void worked(std::uint32_t r, std::uint32_t s, std::uint64_t elems) {
    Cursor& cursor = ranks_[r].cursors[s];
    const Stream::Kind kind = plan(r).streams[s].kind;
    if (kind == Stream::Kind::send) depart(r, s, elems);
    if (kind == Stream::Kind::receive) cursor.arrived -= elems;
    cursor.ready = false;
    cursor.dep = 0;
    cursor.done += elems;
    if (cursor.done == plan(r).steps[cursor.step].range.count) {
      cursor.done = 0;
      cursor.step++;
    }
    look(r, s);
    for (const std::uint32_t waiting : std::exchange(cursor.waiting, {})) look(r, waiting);
    if (ranks_[r].ready.empty())
      leave_core(r);
    else
      work(r, 0);
  }

  void leave_core(std::uint32_t r) {
    Host& host = host_of(r);
    ranks_[r].state = Rank::State::idle;
    host.cores[ranks_[r].core].busy = false;
    if (host.waiting.empty()) return;
    const std::uint32_t next = host.waiting.front();
    host.waiting.pop_front();
    ranks_[next].core = ranks_[r].core;
    begin(next);
  }

  void depart(std::uint32_t r, std::uint32_t s, std::uint64_t elems) {
    const Actor::Target& target = ranks_[r].actor->targets[s];
    const double us = wire_us(elems, target.remote ? cluster_.network_rate : cluster_.local_rate);
    double& free_us = target.remote ? host_of(r).out_free_us : ranks_[r].cursors[s].link_free_us;
    const double begins_us = std::max(now_us_, free_us);
    free_us = begins_us + us;
    if (target.remote) {
      host_of(r).out_busy_us += us;
      after(begins_us - now_us_ + cluster_.network_latency_us, Event::Kind::first_byte, target.actor, target.stream,
            elems);
    } else {
      after(free_us - now_us_ + cluster_.local_latency_us, Event::Kind::arrived, target.actor, target.stream, elems);
    }
  }

  void first_byte(const Event& event) {
    Host& host = host_of(event.actor);
    const double us = wire_us(event.elems, cluster_.network_rate);
    host.in_free_us = std::max(now_us_, host.in_free_us) + us;
    host.in_busy_us += us;
    after(host.in_free_us - now_us_, Event::Kind::arrived, event.actor, event.stream, event.elems);
  }

  Played outcome() const {
    Played played{now_us_};
    for (const Host& host : hosts_) {
      played.core_share = std::max(played.core_share, host.cores_busy_us / double(host.cores.size()));
      played.nic_share = std::max({played.nic_share, host.out_busy_us, host.in_busy_us});
    }
    if (now_us_ > 0) {
      played.core_share /= now_us_;
      played.nic_share /= now_us_;
    }
    return played;
  }

  const Cluster& cluster_;
  std::uint64_t elem_bytes_, segment_elems_;
  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_us_ = 0;
  std::uint64_t made_ = 0;
};

}  // namespace

Played play(const Cast& cast, const Cluster& cluster, std::uint64_t elem_bytes) {
  return Model(cast, cluster, elem_bytes).run();
}

}  // namespace anello::bench
