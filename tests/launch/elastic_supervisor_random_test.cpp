// The supervisor of an elastic job under random ends, memberships, requests and losses of hosts.
#include <gtest/gtest.h>

#include <algorithm>
#include <anello/error.hpp>
#include <csignal>
#include <optional>
#include <random>

#include "rendezvous/launch/processes/elastic_supervisor.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;

constexpr int kRandomSteps = 120, kMostPlaces = 40;

// A job whose processes this object plays. It checks each order.
class RandomJob {
 public:
  explicit RandomJob(unsigned seed) : random_(seed) {
    const int here = 1 + any(4), there = any(4);
    ElasticJob limits;
    limits.max = here + there;
    limits.first = 1 + any(limits.max);
    limits.min = 1 + any(limits.first);
    limits.max_restarts = any(6);
    limits.on_failure = any(3) ? ElasticJob::OnFailure::place : ElasticJob::OnFailure::host;
    limits.patience = milliseconds(20000);
    job_.command = {"train"};
    job_.size = here + there;
    job_.layout = {{"h0", 0, here}, {"h1", here, there}};
    job_.elastic = limits;
    job_.grace = milliseconds(3000);
    if (any(2)) job_.discovery = "list";
    allowed_ = limits.first;
    Supervisor::Actions actions{.order = [this](const Order& order) { take(order); },
                                .abort = [](int, const std::string&) { return false; },
                                .print = [this](const std::string& sentence) { log_ += sentence + "\n"; },
                                .retire = [this](int place) { process(place).retires = true; }};
    supervisor_ = std::make_unique<ElasticSupervisor>(job_, std::move(actions), [this] { return view(); });
  }

  void run() {
    for (int i = 0; i < kRandomSteps && !supervisor_->over() && !::testing::Test::HasFailure(); i++) step();
    if (!supervisor_->ending()) expect_progress();
    if (!supervisor_->ending()) end_all();
    for (int i = 0; i < 100 && !supervisor_->over(); i++) {
      for (int place = 0; place < job_.size; place++)
        if (process(place).alive) ends(place, SIGKILL);
      if (supervisor_->ending()) supervisor_->keeper_gone("");
      pass(1000);
    }
    EXPECT_TRUE(supervisor_->over()) << log_;
    EXPECT_TRUE(finished_ || supervisor_->exit_code() != 0) << log_;
  }
  const std::string& log() const { return log_; }

 private:
  struct Process {
    bool alive = false, joined = false, trains = false, retires = false, killed = false, lost = false, removed = false;
    std::int64_t id = -1;
  };
  int any(int count) { return int(random_() % unsigned(count)); }
  Process& process(int place) { return processes_[std::size_t(place)]; }
  int living() const { return int(std::ranges::count_if(processes_, &Process::alive)); }

  MembershipView view() {
    MembershipView out{1, 1, begun_, finished_, {}};
    for (int place = 0; place < job_.size; place++)
      if (const Process& its = process(place); its.joined)
        out.members.push_back({.place = place, .rank = its.trains ? place : -1, .id = its.id, .trained = its.trains});
    if (ghost_) out.members.push_back(*ghost_);
    return out;
  }
  void take(const Order& order) {
    log_ += text("  order ", int(order.kind), " ", order.rank, "\n");
    if (order.kind == Order::Kind::kill_rank) process(order.rank).killed = true;
    if (order.kind != Order::Kind::start_rank) return;
    EXPECT_LT(order.rank, job_.size) << log_;
    Process& started = process(order.rank);
    EXPECT_FALSE(started.alive || started.lost || started.removed) << order.rank << "\n" << log_;
    EXPECT_FALSE(finished_ || supervisor_->ending()) << log_;
    started = {.alive = true, .id = next_id_++};
    starts_++;
    EXPECT_LE(starts_, allowed_ + job_.elastic->max_restarts) << log_;
    supervisor_->reported({Report::Kind::started, order.rank, 100 + order.rank}, now_);
  }
  void ends(int place, int status) {
    log_ += text("  ends ", place, " ", status, "\n");
    Process& one = process(place);
    if (one.joined && any(3) == 0) ghost_ = {place, one.trains ? place : -1, one.id};  // the server notices it later
    if (finished_ && status != 0 && !supervisor_->ending()) crashed_after_ = true;
    one.alive = one.joined = one.trains = false;
    supervisor_->reported({Report::Kind::exited, place, 100 + place, status}, now_);
  }
  void pass(int time_ms) {
    for (const auto until = now_ + milliseconds(time_ms);; now_ = std::min(until, *supervisor_->next_tick())) {
      while (supervisor_->next_tick() && *supervisor_->next_tick() <= now_) supervisor_->tick(now_);
      if (now_ == until || !supervisor_->next_tick()) break;
    }
    if (supervisor_->ending()) return;
    int leaving = 0, target = 0, running = 0;
    const std::string status = supervisor_->status(now_);
    for (std::size_t at = 0; (at = status.find(": leaves", at)) != std::string::npos; at++) leaving++;
    std::sscanf(status.c_str(), "job : %d of %d processes", &running, &target);
    EXPECT_EQ(running, living()) << log_;
    EXPECT_LE(running, std::max(target, 0) + leaving) << status << log_;
  }
  void step() {
    const int place = any(job_.size);
    Process& one = process(place);
    const int event = any(20);
    log_ += text("event ", event, " at ", place, "\n");
    if (event < 4 && one.alive) one.joined = true;
    if (event == 4) ghost_.reset();
    if (event == 5 || event == 6) {
      for (Process& each : processes_) each.trains = each.joined;
      begun_ = begun_ || std::ranges::any_of(processes_, &Process::trains);
    }
    if (event == 7 && one.alive) ends(place, SIGKILL);
    if (event == 8 && one.alive) ends(place, any(2) ? 1 << 8 : 0);
    if (event == 9 && one.alive) one.joined = one.trains = false;
    if (event == 10 && any(6) == 0 && one.trains) finished_ = true;
    if (event == 11)
      ask([&] {
        const int before = target();
        supervisor_->resize(1 + place, now_);
        allowed_ += std::max(0, 1 + place - before);
      });
    if (event == 12 && any(3) == 0) ask([&] { supervisor_->remove({place}, now_), process(place).removed = true; });
    if (event == 13 && any(3) == 0) lose_host(place);
    if (event == 14 && !job_.discovery.empty() && job_.size + 3 < kMostPlaces) {
      const int before = target();
      job_.layout.push_back({text("h", job_.layout.size()), job_.size, 2});
      job_.size += 2;
      supervisor_->grow(now_);
      allowed_ += std::max(0, target() - before);
    }
    for (int each = 0; each < job_.size; each++)
      if ((process(each).killed || (process(each).retires && any(2))) && process(each).alive)
        ends(each, process(each).killed ? SIGKILL : 0);
    if (finished_ && one.alive) ends(place, 0);
    pass(any(4) ? any(300) : any(20000));
  }
  template <class Request>
  void ask(const Request& request) try {
    request();
  } catch (const Error&) {
  }
  int target() const {
    int running = 0, target = 0;
    std::sscanf(supervisor_->status(now_).c_str(), "job : %d of %d processes", &running, &target);
    return target;
  }
  void lose_host(int place) {
    for (const HostRanks& here : std::vector(job_.layout)) {
      if (!here.has(place)) continue;
      for (int each = here.first; each < here.first + here.count; each++) process(each) = {.lost = true};
      const int before = target();
      supervisor_->host_lost({here, "lost"}, now_);
      allowed_ += std::max(0, target() - before);  // hosts are discovered, so the job fills the remaining places
    }
  }
  // A job that is not ended has a process, or will start one, or ends.
  void expect_progress() {
    if (finished_) return;
    for (int i = 0; i < 4 && living() == 0 && !supervisor_->ending(); i++) pass(30000);
    EXPECT_TRUE(living() > 0 || supervisor_->ending()) << supervisor_->status(now_) << log_;
  }
  void end_all() {
    if (any(2)) return supervisor_->signalled(SIGTERM, now_);
    if (!finished_ && living() == 0) return supervisor_->signalled(SIGTERM, now_);
    finished_ = true;
    for (int place = 0; place < job_.size; place++)
      if (process(place).alive) ends(place, 0);
    pass(2000);
    EXPECT_TRUE(supervisor_->ending()) << log_;
  }

  std::mt19937 random_;
  Job job_;
  std::vector<Process> processes_{kMostPlaces};
  std::optional<MembershipView::Member> ghost_;
  bool begun_ = false, finished_ = false, crashed_after_ = false;
  int starts_ = 0, allowed_ = 0;
  std::int64_t next_id_ = 0;
  Clock::time_point now_ = Clock::now();
  std::string log_;
  std::unique_ptr<ElasticSupervisor> supervisor_;
};

TEST(ElasticSupervisorRandom, KeepsItsPromises) {
  for (unsigned seed = 0; seed < 500 && !::testing::Test::HasFailure(); seed++) {
    SCOPED_TRACE(seed);
    RandomJob(seed).run();
  }
}

}  // namespace
}  // namespace anello::launch
