#include "tests/support/simulation.hpp"

#include <malloc.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ring/base/check.hpp"
#include "ring/base/text.hpp"

namespace anello {
namespace {

constexpr std::uint64_t kMinCapacity = kSignatureBytes + run::Execution::kMaxElemBytes;  // Link guarantees it

// Keeps freed memory in the process. Every simulated rank has its own receive buffer; if each simulation got them from
// the system, this would take three quarters of its time.
void keep_freed_memory() {
  static const bool keeps = mallopt(M_MMAP_THRESHOLD, 1 << 25) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1;
  static_cast<void>(keeps);
}

}  // namespace

Weather draw_weather(Random& random) {
  Weather weather;
  weather.capacity_bytes = kMinCapacity + (random.percent(40) ? random.below(10) : random.below(5000));
  if (random.percent(50)) weather.max_delay = random.from(1, 100);
  if (random.percent(70)) weather.short_percent = int(random.below(100));
  if (random.percent(50)) weather.refused_percent = int(random.below(60));
  weather.lends = random.percent(40);
  weather.shows_room = random.percent(40);
  weather.shows = random.percent(40);
  weather.joins = random.percent(50);
  if (random.percent(70)) weather.by_message_percent = int(random.below(101));
  if (random.percent(50)) weather.max_lazy = random.from(2, 20);
  if (random.percent(50)) {
    weather.stalls = int(random.from(1, 6));
    weather.longest_stall = random.from(1, 3000);
  }
  return weather;
}

class Simulation::SimulatedLink final : public link::MemoryLink {
 public:
  SimulatedLink(Simulation& world, Pipe& out, Pipe& in) : world_(world), out_(out), in_(in) {}
  std::size_t send_from(std::span<const ConstBytes> pieces) override { return world_.send(out_, pieces); }
  std::size_t recv_into(std::span<const Bytes> pieces) override { return world_.receive(in_, pieces); }
  bool prefers_one_piece() const override { return world_.weather_.joins; }
  bool has_arrived() override { return !in_.batches.empty() && in_.batches.front().due <= world_.now_; }
  void begin(bool sending, bool may_refer) override {
    if (sending) out_.lends = world_.weather_.lends && may_refer;
    if (!sending) begun_ = in_.received;
  }
  link::MemoryLink* memory() override { return world_.weather_.shows ? this : nullptr; }
  // Returns a copy with the same alignment, relative to the operation's beginning, as the bytes in the link.
  Bytes peek() override {
    const std::size_t skipped = (in_.received - begun_) % run::Execution::kMaxElemBytes;
    shown_.resize(skipped + world_.shortened(world_.arrived(in_)));
    const Bytes run = std::span(shown_).subspan(skipped);
    Simulation::copy(in_, run);
    return run;
  }
  void consume(std::size_t bytes) override {
    const Bytes gone = std::span(shown_).last(bytes);
    Simulation::take(in_, {&gone, 1}, bytes);
    std::ranges::fill(shown_, std::byte(0xee));  // the sender writes there again
  }
  bool want(link::Wanted wanted, link::Waiter& /*waiter*/) override {
    return !(wanted == link::Wanted::room ? world_.may_send(out_) : world_.may_receive(in_));
  }
  std::optional<Bytes> room(std::size_t bytes) override {
    if (!world_.weather_.shows_room || out_.sent > out_.reported || world_.nears_fault(out_)) return std::nullopt;
    room_.resize(std::min(bytes, world_.room(out_)));
    return Bytes(room_);
  }
  void put(std::size_t bytes) override {
    ANELLO_CHECK(bytes > 0 && bytes <= room_.size());
    const ConstBytes made = room_;
    world_.add(out_, bytes, {&made, 1});
    out_.reported = out_.sent;
  }

 private:
  Simulation& world_;
  Pipe &out_, &in_;
  std::vector<std::byte> room_, shown_;
  std::uint64_t begun_ = 0;  // bytes received before the operation began
};

// The membership of a rank in a group.
struct Simulation::Seat {
  Seat(std::size_t group_, int member_, const std::vector<int>& members_)
      : group(group_), member(member_), links(members_.size()) {}

  std::size_t group;
  int member;
  std::deque<std::size_t> queue;  // indices of the rank's tasks
  const Task* task = nullptr;     // underway
  std::vector<std::unique_ptr<SimulatedLink>> owned;
  std::vector<link::Link*> links;
  bool by_message = false;  // whether the current task uses short messages
  bool sleeps = false;      // nothing moved in the last pass
  run::Execution execution;
  run::Explain explain = [this](int peer, const Signature& theirs) {
    return Error(ErrorCode::mismatch, difference({member}, task->signature, {peer}, theirs), peer);
  };
  run::Driver driver{explain};
  run::MessageExecution messages{explain};
  run::Load load;  // of the messages
};

struct Simulation::Rank {
  Rank(int rank_, std::vector<Task> tasks_) : rank(rank_), tasks(std::move(tasks_)), done(tasks.size()) {}

  int rank;
  std::vector<Task> tasks;
  std::vector<bool> done;
  std::size_t submitted = 0, completed = 0;
  std::uint64_t lazy = 1, stalled_until = 0;
  std::vector<std::unique_ptr<Seat>> seats;
};

Simulation::Simulation(std::vector<std::vector<Task>> program, const Weather& weather, const Fault& fault,
                       std::uint64_t seed, Groups groups)
    : weather_(weather), fault_(fault), random_(seed) {
  keep_freed_memory();
  const int world = int(program.size());
  for (int r = 0; r < world; r++) {
    ranks_.push_back(std::make_unique<Rank>(r, std::move(program[std::size_t(r)])));
    ranks_.back()->lazy = random_.from(1, weather.max_lazy);
  }
  if (groups.empty()) {
    groups.emplace_back(ranks_.size());
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  for (std::size_t group = 0; group < groups.size(); group++) seat(group, groups[group]);
  draw_stalls();
}
Simulation::~Simulation() = default;

void Simulation::seat(std::size_t group, const std::vector<int>& members) {
  for (const int from : members)
    for (const int to : members) {
      Pipe& fresh = pipes_[{group, from, to}];
      fresh.group = group;
      fresh.from = from;
      fresh.to = to;
    }
  for (std::size_t member = 0; member < members.size(); member++) {
    Rank& rank = *ranks_[std::size_t(members[member])];
    auto& seat = *rank.seats.emplace_back(std::make_unique<Seat>(group, int(member), members));
    for (std::size_t other = 0; other < members.size(); other++) {
      if (other == member) continue;
      const int peer = members[other];
      seat.owned.push_back(
          std::make_unique<SimulatedLink>(*this, pipe(group, rank.rank, peer), pipe(group, peer, rank.rank)));
      seat.links[other] = seat.owned.back().get();
    }
  }
}

void Simulation::draw_stalls() {
  for (int k = 0; k < weather_.stalls; k++) {
    const std::uint64_t until = random_.from(1, weather_.longest_stall);
    if (random_.percent(50))
      random_.one_of(ranks_)->stalled_until = until;
    else
      std::next(pipes_.begin(), std::ptrdiff_t(random_.below(pipes_.size())))->second.stalled_until = until;
  }
}

// The number of ticks without a move after which certainly nothing will move any more, since every rank has had many
// turns.
std::uint64_t Simulation::patience() const {
  std::size_t max_seats = 1;
  for (const auto& rank : ranks_) max_seats = std::max(max_seats, rank->seats.size());
  return weather_.longest_stall + weather_.max_delay + 400 * max_seats * ranks_.size() * weather_.max_lazy;
}

void Simulation::submit(Rank& rank) {
  while (rank.submitted < rank.tasks.size()) {
    const bool waits = rank.submitted > 0 && rank.tasks[rank.submitted - 1].blocks && !rank.done[rank.submitted - 1];
    if (waits) return;
    const auto belongs = [&](const auto& seat) { return seat->group == rank.tasks[rank.submitted].group; };
    (*std::find_if(rank.seats.begin(), rank.seats.end(), belongs))->queue.push_back(rank.submitted++);
  }
}

// Draws a seat that has something to do; null if there is no such seat.
Simulation::Seat* Simulation::draw_seat(Rank& rank) {
  std::vector<Seat*> busy;
  for (const auto& seat : rank.seats)
    if (!seat->queue.empty()) busy.push_back(seat.get());
  return busy.empty() ? nullptr : random_.one_of(busy);
}

void Simulation::start(Seat& seat, const Task& task) {
  seat.task = &task;
  seat.sleeps = false;
  const run::Scaling* const results = task.scaling.divisor != 1 || task.scaling.factor != 1 ? &task.scaling : nullptr;
  const run::Scaling* const inputs = task.input_scaling.factor != 1 ? &task.input_scaling : nullptr;
  const bool can_go_by_message = run::MessageExecution::suits(*task.plan, task.arithmetic) &&
                                 run::MessageExecution::suits(task.input, task.output, inputs);
  seat.by_message = can_go_by_message && random_.percent(std::uint64_t(weather_.by_message_percent));
  if (seat.by_message) {
    seat.load = {.plan = task.plan,
                 .arithmetic = &task.arithmetic,
                 .input = &task.input,
                 .output = &task.output,
                 .signature = &task.signature,
                 .links = seat.links};
    if (results) seat.load.result_scaling = *results;
    seat.messages.begin(seat.load);
  } else {
    seat.execution.start(*task.plan, task.arithmetic, task.input, task.output, results, inputs);
    seat.driver.start(seat.execution, task.signature, seat.links);
  }
}

// True if an event that the seat waits for has happened.
bool Simulation::is_woken(Seat& seat) {
  bool woken = false;
  const auto want = [&](link::Link& link, link::Wanted wanted) { woken |= !link.want(wanted, waiter_); };
  seat.by_message ? seat.messages.each_wanted(want) : seat.driver.each_wanted(want);
  return woken;
}

bool Simulation::pass(Rank& rank, Seat& seat) {
  bool moved = false;
  if (!seat.task) {
    start(seat, rank.tasks[seat.queue.front()]);
    moved = true;
  }
  if (seat.sleeps && !is_woken(seat)) return false;
  const bool passed = seat.by_message ? seat.messages.pass() : seat.driver.pass();
  seat.sleeps = !passed;
  moved |= passed;
  if (!(seat.by_message ? seat.messages.done() : seat.execution.done())) return moved;
  rank.done[seat.queue.front()] = true;
  rank.completed++;
  seat.queue.pop_front();
  seat.task = nullptr;
  return true;
}

// Returns true if anything happened.
bool Simulation::turn(Rank& rank) {
  if (rank.completed == rank.tasks.size() || rank.stalled_until > now_ || random_.below(rank.lazy) != 0) return false;
  submit(rank);
  Seat* const seat = draw_seat(rank);
  return seat && pass(rank, *seat);
}

Simulation::Outcome Simulation::run() {
  Outcome outcome;
  const auto done = [](const auto& rank) { return rank->completed == rank->tasks.size(); };
  for (std::uint64_t idle = 0; !outcome.error && !outcome.stuck && !outcome.all_done; now_++) {
    Rank& rank = *random_.one_of(ranks_);
    try {
      idle = turn(rank) ? 0 : idle + 1;
    } catch (const Error& e) {
      outcome.error = e;
      outcome.noticed_by = rank.rank;
    }
    outcome.all_done = std::all_of(ranks_.begin(), ranks_.end(), done);
    outcome.stuck = idle > patience();
  }
  for (const auto& rank : ranks_) {
    outcome.completed.push_back(rank->completed);
    outcome.done.push_back(rank->done);
  }
  for (const auto& [which, pipe] : pipes_) outcome.bytes_left += pipe.broken || pipe.closed ? 0 : pipe.held;
  return outcome;
}

}  // namespace anello
