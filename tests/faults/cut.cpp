#include "tests/faults/cut.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "ring/base/text.hpp"
#include "ring/failure/control_graph.hpp"
#include "tests/faults/proxy_delay.hpp"
#include "tests/support/proxied.hpp"
#include "tests/support/random.hpp"
#include "tests/support/starvation.hpp"

namespace anello::faults {
namespace {

using std::chrono::steady_clock;

constexpr milliseconds kLongest{20000};  // limit of one operation, so that the trial ends even if the error is late
constexpr milliseconds kBetweenLooks{5};

std::string_view name(Traffic traffic) {
  constexpr std::array<std::string_view, std::size(kTraffics)> kNames{"everybody", "pair", "one way",
                                                                      "answer",    "ring", "idle"};
  return kNames[std::size_t(traffic)];
}

class CutWorld {
 public:
  explicit CutWorld(const Cut& cut) : cut_(cut), proxied_(cut.ranks) {}

  Result play() {
    std::thread cutter([this] { cut_and_wait(); });
    try {
      told_ = proxied_.told([this](World& world) { live(world); }, settings());
    } catch (const std::exception& e) {
      result_.wrong = text("the world did not start: ", e.what());
    }
    over_ = true;
    cutter.join();
    judge();
    return result_;
  }

 private:
  Settings settings() const {
    Settings settings = Settings::from_environment();
    settings.silence_limit = cut_.silence_limit;
    settings.operation_limit = kLongest;
    return settings;
  }

  void cut_and_wait() {
    while (ready_ < cut_.ranks && !over_) std::this_thread::sleep_for(kBetweenLooks);
    std::this_thread::sleep_for(cut_.delay);
    {
      const std::lock_guard lock(mutex_);
      at_ = steady_clock::now();
    }
    proxied_.between(cut_.low, cut_.high, {.cut_off = true});
    is_cut_ = true;
    const auto end = at_ + (cut_.is_found() ? kLongest : cut_.promised());
    while (!over_ && steady_clock::now() < end) std::this_thread::sleep_for(kBetweenLooks);
    over_ = true;
  }

  void live(World& world) {
    try {
      work(world);
    } catch (const Error&) {
      const std::lock_guard lock(mutex_);
      last_ = std::max(last_, steady_clock::now());
      starved_ = starvation_.longest();
      ping_ = proxy_delay_.longest();
      throw;
    }
  }

  void work(World& world) {
    world.barrier();
    Rank rank{world, world.rank() == cut_.low, world.rank() == cut_.high, {}};
    if (cut_.traffic == Traffic::pair && rank.is_one()) rank.pair = world.group({cut_.low, cut_.high});
    if (!cut_.fresh) step(rank);
    ready_++;
    while (cut_.fresh && !is_cut_ && !over_) std::this_thread::sleep_for(kBetweenLooks);
    while (step(rank)) operations_++;
  }

  struct Rank {
    World& world;
    bool is_low, is_high;  // whether this is the lower or the higher of the two ranks that are cut apart
    std::optional<Group> pair;
    int sent = 0;

    bool is_one() const { return is_low || is_high; }
  };

  // Carries out the rank's next operation. Returns false if the world is to end in good order.
  bool step(Rank& rank) {
    switch (cut_.traffic) {
      case Traffic::everybody:
        return exchange(rank.world);
      case Traffic::ring:
        return reduce(rank.world, "ring");
      case Traffic::pair:
        return rank.is_one() ? reduce(*rank.pair, "") : rest(rank.world);
      case Traffic::one_way:
        return rank.is_one() ? pass(rank, rank.is_high) : rest(rank.world);
      case Traffic::answer:
        return rank.is_one() ? pass(rank, rank.is_low) : rest(rank.world);
      case Traffic::idle:
        break;
    }
    return rest(rank.world);
  }

  bool exchange(Group& world) {
    std::vector<int> sent(std::size_t(world.size()), world.rank()), received(sent.size());
    world.alltoall(sent, received);
    for (std::size_t rank = 0; rank < received.size(); rank++) check(received[rank] == int(rank));
    return true;
  }

  // The first rank decides whether to go on.
  bool reduce(Group& group, std::string_view algorithm) {
    const bool ends = group.rank() == 0 && over_;
    std::vector<int> values(std::size_t(4 * group.size()), group.rank());
    values.front() = ends;
    const int sum = group.size() * (group.size() - 1) / 2;
    group.allreduce(values, Op::sum, {.algorithm = algorithm});
    for (std::size_t k = 1; k < values.size(); k++) check(values[k] == sum);
    return values.front() == 0;
  }

  // Sends or receives a few bytes. They fit into buffers, so the sender does not wait for the receiver.
  bool pass(Rank& rank, bool sends) {
    const int other = rank.is_low ? cut_.high : cut_.low;
    int number = rank.sent;
    if (sends)
      rank.world.send(std::span(&number, 1), other);
    else
      rank.world.recv(std::span(&number, 1), other);
    check(number == rank.sent++);
    return !sends || rest(rank.world);
  }

  bool rest(const Group& world) {
    if (const auto why = world.failure()) throw Error(*why);
    std::this_thread::sleep_for(kBetweenLooks);
    return !over_;
  }

  void check(bool right) {
    if (!right) is_wrong_ = true;
  }

  void judge() {
    for (const Told& told : told_) {
      if (const std::string lie = untrue(told); !lie.empty()) result_.wrong = text("rank ", told.rank, " ", lie);
      result_.told |= told.error.has_value();
    }
    if (is_wrong_) result_.wrong = "a result is wrong";
    result_.operations = operations_;
    if (!result_.told || !is_cut_) return;
    const auto after = std::chrono::ceil<milliseconds>(last_ - at_);
    result_.latest = after;
    if (result_.wrong.empty() && after > latest())
      result_.wrong = text("the last was told after ", after.count(), " ms; ", slowness());
  }

  std::string untrue(const Told& told) const {
    if (!told.error) return cut_.is_found() ? "was told nothing" : "";
    const bool is_one = told.error->rank() == cut_.low || told.error->rank() == cut_.high;
    const bool is_true = told.error->code() == ErrorCode::rank_silent && ((cut_.is_found() && is_one) || is_starved());
    return is_true ? "" : text("was told ", told.error->what(), "; ", slowness());
  }

  // A rank pings when it has waited for half of the limit.
  bool is_starved() const {
    return could_be_silent(starved_, cut_.silence_limit,
                           cut_.traffic == Traffic::idle ? std::nullopt : std::optional(ping_));
  }
  std::string slowness() const {
    return text("the longest wait for a core was ", starved_.count(), " ms, the proxies took up to ", ping_.count(),
                " ms for a ping");
  }
  milliseconds latest() const { return cut_.promised() + lateness(starved_, cut_.silence_limit); }

  const Cut& cut_;
  Result result_;
  std::vector<Told> told_;
  std::atomic<int> ready_{0};
  std::atomic<bool> is_cut_{false}, over_{false}, is_wrong_{false};
  std::atomic<std::uint64_t> operations_{0};
  std::mutex mutex_;
  steady_clock::time_point at_, last_;  // time of the cut; time of the last error
  milliseconds starved_{0}, ping_{0};   // both measured until the last error
  Starvation starvation_;
  Proxied proxied_;
  ProxyDelay proxy_delay_{proxied_};
};

}  // namespace

bool Cut::is_found() const {
  const std::vector<int> neighbours = failure::control_neighbours(low, ranks);
  const bool heartbeats = std::ranges::find(neighbours, high) != neighbours.end();
  return heartbeats || (traffic != Traffic::ring && traffic != Traffic::idle);
}

milliseconds Cut::promised() const {
  return silence_limit + silence_limit / 2 + kSoon;
}

Cut any_cut(std::uint64_t seed) {
  Random random(seed);
  Cut cut{.ranks = int(random.from(2, 12))};
  cut.low = int(random.below(std::uint64_t(cut.ranks - 1)));
  cut.high = int(random.from(std::uint64_t(cut.low + 1), std::uint64_t(cut.ranks - 1)));
  cut.traffic = kTraffics[random.below(std::size(kTraffics))];
  cut.fresh = random.percent(50);
  cut.delay = milliseconds(random.below(200));
  return cut;
}

std::string describe(const Cut& cut) {
  return text("cut between ranks ", cut.low, " and ", cut.high, " of ", cut.ranks, " (", name(cut.traffic),
              cut.fresh ? ", no connection before" : "", cut.is_found() ? "" : ", harmless", "), after ",
              cut.delay.count(), " ms");
}

Result carry_out(const Cut& cut) {
  return CutWorld(cut).play();
}

}  // namespace anello::faults
