#include "bench/simulate/model.hpp"

#include <queue>
#include <tuple>
#include <utility>

#include "bench/simulate/host.hpp"
#include "bench/simulate/inflow.hpp"
#include "ring/base/check.hpp"
#include "ring/plan/limit.hpp"

namespace anello::bench {
namespace {

struct Event {
  enum class Kind : std::uint8_t {
    worked,      // a rank has finished a piece of a stream's step
    departs,     // the first bytes of a transfer leave the sender, which still copies the rest into the link
    first_byte,  // the first byte of a transfer from another host reaches the receiver's interface
    look,        // a stream checks whether it can continue, because enough data should have arrived for it now
  };
  double at_us;
  std::uint64_t number;  // of two events at the same time, the one with the lower number happens first
  Kind kind;
  std::uint32_t rank, stream;
  std::uint64_t elems;
  bool operator>(const Event& other) const { return std::tie(at_us, number) > std::tie(other.at_us, other.number); }
};

// The progress of a stream, as in Execution.
struct Cursor {
  std::uint32_t step = 0, end = 0;
  std::uint32_t dep = 0;               // index of the current step's first dependency that is not satisfied
  bool ready = false;                  // true if the stream is in the rank's queue of ready streams
  std::uint64_t done = 0;              // elements of the current step that are done
  Inflow inflow;                       // used if the stream receives
  double looks_us = -1;                // time of the stream's next look event; negative: none
  Lane local;                          // used if the stream sends within the host
  std::vector<std::uint32_t> waiting;  // streams that depend on this stream's progress
};

struct Ready {
  bool sends;
  std::uint32_t order, stream;
  bool operator<(const Ready& other) const {  // true if this stream is less urgent
    return sends != other.sends ? other.sends : order > other.order;
  }
};

struct Rank {
  enum class State : std::uint8_t { idle, waiting, running };
  const SimulatedRank* simulated = nullptr;
  std::vector<Cursor> cursors;
  std::priority_queue<Ready> ready;
  State state = State::idle;
  std::uint32_t core = 0;
};

class Model {
 public:
  Model(const SimulatedRanks& all, const Cluster& cluster, std::uint64_t elem_bytes);
  SimulationResult run();

 private:
  void after(double us, Event::Kind kind, std::uint32_t r, std::uint32_t s, std::uint64_t elems = 0) {
    events_.push({now_us_ + us, made_++, kind, r, s, elems});
  }
  double took_us(std::uint64_t elems, double rate) const { return double(elems * elem_bytes_) / rate; }
  std::uint64_t elems_of(std::uint64_t bytes) const { return std::max<std::uint64_t>(1, bytes / elem_bytes_); }
  const plan::Plan& plan(std::uint32_t r) const { return ranks_[r].simulated->plan; }
  Host& host_of(std::uint32_t r) { return hosts_[std::size_t(ranks_[r].simulated->host)]; }

  void happen(const Event& event);
  auto positions(std::uint32_t r) const {
    return [&cursors = ranks_[r].cursors](std::uint32_t s) { return plan::Position{cursors[s].step, cursors[s].done}; };
  }
  bool held_back(std::uint32_t r, std::uint32_t s);
  bool awaits_data(std::uint32_t r, std::uint32_t s);
  void look(std::uint32_t r, std::uint32_t s);
  std::uint64_t possible(std::uint32_t r, std::uint32_t s);
  void begin(std::uint32_t r, Cores::Assignment assigned);
  void work(std::uint32_t r, double already_us);
  void worked(std::uint32_t r, std::uint32_t s, std::uint64_t elems);
  void depart(std::uint32_t r, std::uint32_t s, std::uint64_t elems);
  void arrive(std::uint32_t r, std::uint32_t s, double begins_us, std::uint64_t elems, double rate);
  SimulationResult outcome() const;

  const Cluster& cluster_;
  std::uint64_t elem_bytes_, segment_elems_, grain_elems_;
  std::vector<Host> hosts_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_us_ = 0;
  std::uint64_t made_ = 0;
};

Model::Model(const SimulatedRanks& all, const Cluster& cluster, std::uint64_t elem_bytes)
    : cluster_(cluster),
      elem_bytes_(elem_bytes),
      segment_elems_(elems_of(cluster.segment_bytes)),
      grain_elems_(elems_of(std::min(cluster.grain_bytes, cluster.segment_bytes))),
      hosts_(std::size_t(all.hosts), Host(cluster.cores_used())),
      ranks_(all.ranks.size()) {
  for (std::size_t r = 0; r < ranks_.size(); r++) {
    const plan::Plan& plan = all.ranks[r].plan;
    ranks_[r].simulated = &all.ranks[r];
    ranks_[r].cursors.resize(plan.streams.size());
    for (std::size_t s = 0; s < plan.streams.size(); s++) {
      ranks_[r].cursors[s].step = plan.streams[s].first;
      ranks_[r].cursors[s].end = plan.streams[s].end;
    }
  }
}

SimulationResult Model::run() {
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

void Model::happen(const Event& event) {
  switch (event.kind) {
    case Event::Kind::worked:
      return worked(event.rank, event.stream, event.elems);
    case Event::Kind::departs:
      return depart(event.rank, event.stream, event.elems);
    case Event::Kind::first_byte: {
      const double rate = std::min(cluster_.network_rate, cluster_.copy_rate);
      return arrive(event.rank, event.stream, host_of(event.rank).in.carry(now_us_, took_us(event.elems, rate)),
                    event.elems, rate);
    }
    case Event::Kind::look:
      return look(event.rank, event.stream);
  }
}

// Returns true if the step must wait for another stream. In that case, the other stream will call look() for this one.
bool Model::held_back(std::uint32_t r, std::uint32_t s) {
  Cursor& cursor = ranks_[r].cursors[s];
  const plan::Step& step = plan(r).steps[cursor.step];
  for (; cursor.dep < step.deps; cursor.dep++) {
    const plan::Dep dep = plan(r).deps[step.first_dep + cursor.dep];
    if (limit(plan(r), step, dep, positions(r)) > step.range.begin + cursor.done) continue;
    ranks_[r].cursors[plan(r).steps[dep.step].stream].waiting.push_back(s);
    return true;
  }
  return false;
}

// Returns true if the stream waits for data. In that case, an event will call look() for it: an event made here, or the
// next arrival.
bool Model::awaits_data(std::uint32_t r, std::uint32_t s) {
  Cursor& cursor = ranks_[r].cursors[s];
  const std::uint64_t enough = std::min(grain_elems_, plan(r).steps[cursor.step].range.count - cursor.done);
  if (cursor.inflow.available(now_us_) >= enough) return false;
  const std::optional<double> when_us = cursor.inflow.when(enough);
  if (when_us && cursor.looks_us < now_us_) {
    cursor.looks_us = *when_us;
    after(*when_us - now_us_, Event::Kind::look, r, s);
  }
  return true;
}

// If the stream can continue, queues the stream until its rank has time.
void Model::look(std::uint32_t r, std::uint32_t s) {
  Rank& rank = ranks_[r];
  Cursor& cursor = rank.cursors[s];
  if (cursor.ready || cursor.step == cursor.end) return;
  const plan::Step& step = plan(r).steps[cursor.step];
  if (plan(r).streams[s].kind == plan::Stream::Kind::receive && awaits_data(r, s)) return;
  if (held_back(r, s)) return;
  cursor.ready = true;
  rank.ready.push({step.act == plan::Act::send, step.order, s});
  if (rank.state != Rank::State::idle) return;
  rank.state = Rank::State::waiting;
  if (const auto assigned = host_of(r).cores.enter(r)) begin(r, *assigned);
}

// Returns the number of elements that a ready stream can process now, in one piece.
std::uint64_t Model::possible(std::uint32_t r, std::uint32_t s) {
  Cursor& cursor = ranks_[r].cursors[s];
  const plan::Step& step = plan(r).steps[cursor.step];
  const std::uint64_t end = limit(plan(r), step, positions(r));
  std::uint64_t elems = std::min(segment_elems_, end - step.range.begin - cursor.done);
  if (plan(r).streams[s].kind == plan::Stream::Kind::receive) elems = std::min(elems, cursor.inflow.available(now_us_));
  return elems;
}

void Model::begin(std::uint32_t r, Cores::Assignment assigned) {
  ranks_[r].state = Rank::State::running;
  ranks_[r].core = assigned.core;
  work(r, assigned.switched ? cluster_.switch_us : 0);
}

void Model::work(std::uint32_t r, double already_us) {
  const std::uint32_t s = ranks_[r].ready.top().stream;
  ranks_[r].ready.pop();
  const std::uint64_t elems = possible(r, s);
  const plan::Step& step = plan(r).steps[ranks_[r].cursors[s].step];
  const double us = already_us + core_us(cluster_, plan(r), step, double(elems * elem_bytes_));
  host_of(r).cores_busy_us += us;
  const double first_us = took_us(std::min(elems, grain_elems_), cluster_.copy_rate);
  if (step.act == plan::Act::send)
    after(already_us + cluster_.message_us + first_us, Event::Kind::departs, r, s, elems);
  after(us, Event::Kind::worked, r, s, elems);
}

void Model::worked(std::uint32_t r, std::uint32_t s, std::uint64_t elems) {
  Cursor& cursor = ranks_[r].cursors[s];
  if (plan(r).streams[s].kind == plan::Stream::Kind::receive) cursor.inflow.take(elems);
  cursor.ready = false;
  cursor.dep = 0;
  cursor.done += elems;
  if (cursor.done == plan(r).steps[cursor.step].range.count) {
    cursor.done = 0;
    cursor.step++;
  }
  look(r, s);
  for (const std::uint32_t waiting : std::exchange(cursor.waiting, {})) look(r, waiting);
  if (!ranks_[r].ready.empty()) return work(r, 0);
  ranks_[r].state = Rank::State::idle;
  Cores& cores = host_of(r).cores;
  if (const auto next = cores.leave(ranks_[r].core)) begin(*next, cores.take(ranks_[r].core, *next));
}

void Model::depart(std::uint32_t r, std::uint32_t s, std::uint64_t elems) {
  const SimulatedRank::Target& target = ranks_[r].simulated->targets[s];
  const double rate = std::min(target.remote ? cluster_.network_rate : cluster_.local_rate, cluster_.copy_rate);
  Lane& lane = target.remote ? host_of(r).out : ranks_[r].cursors[s].local;
  const double begins_us = lane.carry(now_us_, took_us(elems, rate));
  if (target.remote)
    after(begins_us - now_us_ + cluster_.network_latency_us, Event::Kind::first_byte, target.rank, target.stream,
          elems);
  else
    arrive(target.rank, target.stream, begins_us + cluster_.local_latency_us, elems, rate);
}

void Model::arrive(std::uint32_t r, std::uint32_t s, double begins_us, std::uint64_t elems, double rate) {
  ranks_[r].cursors[s].inflow.add(begins_us, elems, double(elem_bytes_) / rate);
  look(r, s);
}

SimulationResult Model::outcome() const {
  SimulationResult result{now_us_};
  if (now_us_ == 0) return result;
  for (const Host& host : hosts_) {
    result.core_share = std::max(result.core_share, host.cores_busy_us / double(host.cores.count()) / now_us_);
    result.nic_share = std::max({result.nic_share, host.out.busy_us() / now_us_, host.in.busy_us() / now_us_});
  }
  return result;
}

}  // namespace

double core_us(const Cluster& cluster, const plan::Plan& plan, const plan::Step& step, double bytes) {
  const double copied_us = bytes / cluster.copy_rate, reduced_us = bytes / cluster.reduce_rate;
  if (step.act == plan::Act::fold) return step.sources == 1 ? copied_us : (step.sources - 1) * reduced_us;
  if (step.act != plan::Act::reduce) return cluster.message_us + copied_us;
  const bool in_place = cluster.memory && cluster.on_one_host(plan.rank, plan.streams[step.stream].peer);
  return cluster.message_us + (in_place ? 0 : copied_us) + reduced_us;
}

SimulationResult simulate(const SimulatedRanks& ranks, const Cluster& cluster, std::uint64_t elem_bytes) {
  return Model(ranks, cluster, elem_bytes).run();
}

}  // namespace anello::bench
