// Three ranks submit random named operations. One rank lacks memory at a random place. Every rank must end with the
// right results, or with an error that names this rank.
#include <thread>

#include "ring/base/text.hpp"
#include "tests/agenda/schedulers.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/random.hpp"

namespace anello::agenda {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr int kRanks = 3;

// Runs something on the rank's progress thread.
class OnProgressThread final : public group::Movable {
 public:
  explicit OnProgressThread(std::function<void()> work) : work_(std::move(work)) {}
  Progress progress() override {
    if (!done_) work_();
    done_ = true;
    return Progress::none;
  }
  bool prepare_sleep(link::Waiter&, milliseconds&) override { return false; }
  void slept(trace::Ticks) override {}
  bool done() const { return done_; }

 private:
  std::function<void()> work_;
  std::atomic<bool> done_ = false;
};

void on_progress_thread(Group& group, std::function<void()> work) {
  const auto thread = GroupAccess::carriers(group).progress_thread;
  const auto once = std::make_shared<OnProgressThread>(std::move(work));
  thread->start();
  thread->offer(once);
  while (!once->done()) std::this_thread::sleep_for(milliseconds(1));
}

// The arguments of an operation, equal on all ranks except for the tensors' elements.
struct Asked {
  Verb verb = Verb::allreduce;
  std::string name;
  std::size_t rows = 0;
  bool integers = false;
  double prescale = 1, postscale = 1;
};

class Trial {
 public:
  explicit Trial(std::uint64_t seed) : random_(seed) {
    faulty_ = int(random_.below(kRanks));
    in_progress_thread_ = random_.percent(40);
    const bool large = random_.percent(25);
    (large ? plan_.large_memory : plan_.memory) = std::int64_t(random_.below(large ? 4 : 150));
    const Verb verbs[] = {Verb::allreduce, Verb::reduce_scatter, Verb::allgather, Verb::broadcast, Verb::alltoall};
    for (std::uint64_t k = 0, count = 1 + random_.below(6); k < count; k++)
      asked_.push_back({.verb = verbs[random_.below(5)],
                        .name = random_.percent(50) ? text("n", k) : "",
                        .rows = std::size_t(kRanks) * (1 + random_.below(random_.percent(30) ? 20'000 : 50)),
                        .integers = random_.percent(50)});
    for (Asked& each : asked_)
      if (each.verb == Verb::allreduce || each.verb == Verb::reduce_scatter) {
        each.prescale = random_.percent(40) ? 2 : 1;
        each.postscale = random_.percent(40) ? 3 : 1;
      }
  }

  // Sets `hangs` if a rank waited for too long.
  void run(World& world) {
    const auto scheduler = Scheduler::make(world);
    const bool faulty = world.rank() == faulty_;
    if (faulty && in_progress_thread_) on_progress_thread(world, [this] { faults::plan(plan_); });
    for (int round = 0; round < 2; round++)
      if (!carry_out(world, *scheduler, faulty && !in_progress_thread_ && round == 0)) break;
    if (faulty && in_progress_thread_) on_progress_thread(world, [] { faults::plan({}); });
    if (const auto failure = world.failure()) {
      EXPECT_EQ(failure->rank(), faulty_) << failure->what();
    }
    scheduler->close();
  }

 private:
  using Values = std::pair<std::vector<int>, std::vector<float>>;

  // Returns false if the world has failed.
  bool carry_out(World& world, Scheduler& scheduler, bool faulty) {
    std::vector<Values> values;
    for (const Asked& each : asked_)
      values.emplace_back(std::vector<int>(each.rows, world.rank() + 1),
                          std::vector<float>(each.rows, float(world.rank() + 1)));
    std::vector<NamedCall> requests;
    for (std::size_t k = 0; k < asked_.size(); k++) requests.push_back(request_of(asked_[k], values[k]));
    std::vector<Scheduler::Handle> handles(asked_.size());
    if (faulty) faults::plan(plan_);
    for (std::size_t k = 0; k < asked_.size(); k++) {
      try {
        handles[k] = scheduler.submit(std::move(requests[k]));
      } catch (const std::exception&) {
        EXPECT_TRUE(world.rank() == faulty_ || world.failure());
      }
    }
    bool lives = true;
    for (const auto& handle : handles) lives &= !handle || ends(world, scheduler, *handle);
    if (faulty) faults::plan({});  // the code below needs memory for the test itself
    if (!lives) return false;
    for (std::size_t k = 0; k < asked_.size(); k++) lives &= !handles[k] || is_right(world, k, *handles[k], values[k]);
    return lives && !world.failure();
  }

  static NamedCall request_of(const Asked& asked, Values& values) {
    return {.verb = asked.verb,
            .name = asked.name,
            .inputs = {asked.integers ? view_of(values.first) : view_of(values.second)},
            .root = asked.verb == Verb::broadcast ? 1 : -1,
            .prescale = asked.prescale,
            .postscale = asked.postscale};
  }

  bool ends(World& world, Scheduler& scheduler, NamedOperation& operation) {
    try {
      if (!scheduler.wait(operation, steady_clock::now() + seconds(60))) {
        ADD_FAILURE() << operation.key() << " hangs on rank " << world.rank();
        world.abort("it hangs");
        scheduler.wait(operation);
        return false;
      }
    } catch (const std::bad_alloc&) {
      EXPECT_EQ(world.rank(), faulty_);
      scheduler.wait(operation);
    }
    return true;
  }

  // Returns false if the operation failed together with the world.
  bool is_right(World& world, std::size_t k, NamedOperation& operation, const Values& values) {
    if (const auto error = operation.error()) {
      EXPECT_EQ(error->rank(), faulty_) << error->what();
      return error->code() == ErrorCode::mismatch && !world.failure();
    }
    const bool in_place = asked_[k].verb == Verb::allreduce || asked_[k].verb == Verb::broadcast;
    if (asked_[k].integers)
      check(world.rank(), asked_[k], in_place ? values.first : output<int>(operation));
    else
      check(world.rank(), asked_[k], in_place ? values.second : output<float>(operation));
    return true;
  }

  template <class T>
  static void check(int, const Asked& asked, const std::vector<T>& result) {
    for (std::size_t k = 0; k < result.size(); k++) {
      T right = T(6 * asked.prescale * asked.postscale);
      if (asked.verb == Verb::broadcast) right = 2;
      if (asked.verb == Verb::allgather || asked.verb == Verb::alltoall) right = T(1 + k / (result.size() / kRanks));
      ASSERT_EQ(result[k], right) << name(asked.verb) << " " << asked.name << ", element " << k;
    }
  }

  Random random_;
  int faulty_ = 0;
  bool in_progress_thread_ = false;
  faults::Plan plan_;
  std::vector<Asked> asked_;
};

TEST(RandomFaults, EveryRankGetsTheRightResultOrAnErrorThatNamesTheRank) {
  for (const std::uint64_t seed : seeds(300)) {
    Trial trial(seed);
    (void)told_on_all_ranks(kRanks, [&](World& world) { trial.run(world); });
    if (testing::Test::HasFailure()) FAIL() << replay(seed);
  }
}

}  // namespace
}  // namespace anello::agenda
