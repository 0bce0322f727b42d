#include "tests/support/assembly.hpp"

#include <algorithm>
#include <optional>

#include "ring/base/text.hpp"

namespace anello {

struct Assembly::Rank {
  Rank(int rank, const std::vector<std::string>& hosts)
      : detector(rank, hosts, [this](std::uint64_t group, std::uint64_t sequence) -> std::optional<Signature> {
          for (const Signature& signature : begun)
            if (signature.group == group && signature.sequence == sequence) return signature;
          return std::nullopt;
        }) {}
  std::vector<Signature> begun;
  bool is_down = false, is_paused = false;
  failure::FailureDetector detector;
};

Assembly::Assembly(int size, std::uint64_t seed) : random_(seed) {
  const std::vector<std::string> hosts = host_names(size);
  for (int rank = 0; rank < size; rank++) {
    ranks_.push_back(std::make_unique<Rank>(rank, hosts));
    const std::vector<int> others = failure::control_neighbours(rank, size);
    connections_.emplace_back(others.begin(), others.end());
  }
}

Assembly::~Assembly() = default;

std::vector<std::string> Assembly::host_names(int size) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < size; rank++) hosts.push_back(text("host", rank));
  return hosts;
}

failure::FailureDetector& Assembly::operator[](int rank) {
  return at(rank).detector;
}

void Assembly::begin(int rank, const Signature& signature) {
  at(rank).begun.push_back(signature);
}

void Assembly::kill(int rank) {
  at(rank).is_down = true;
  for (const int other : neighbours(rank)) notices_.push_back({other, rank});
}

void Assembly::depart(int rank, std::uint64_t completed) {
  at(rank).detector.leave(0, completed);
  collect();
  at(rank).is_down = true;
}

void Assembly::stop(int rank) {
  at(rank).is_down = true;
}

void Assembly::pause(int rank) {
  at(rank).is_paused = true;
}

void Assembly::resume(int rank) {
  at(rank).is_paused = false;
  at(rank).detector.stood_still(now_);
  in_flight_.insert(in_flight_.end(), held_.begin(), held_.end());
  notices_.insert(notices_.end(), held_notices_.begin(), held_notices_.end());
  held_.clear();
  held_notices_.clear();
}

void Assembly::cut(int a, int b) {
  cut_.insert(std::minmax(a, b));
}

bool Assembly::step() {
  collect();
  connect();
  pass_on(in_flight_.empty() ? 100 : 5);
  const std::size_t pending = in_flight_.size() + notices_.size();
  if (pending == 0) return false;
  const std::size_t pick = random_.below(pending);
  if (pick < in_flight_.size())
    deliver(pick);
  else
    notice(pick - in_flight_.size());
  return true;
}

void Assembly::deliver_all() {
  while (step()) {
  }
}

void Assembly::deliver_some() {
  for (std::uint64_t steps = random_.below(20); steps > 0 && step(); steps--) {
  }
}

void Assembly::advance(Time by) {
  deliver_all();
  now_ += by;
  for (const auto& s : ranks_)
    if (const auto due = s->detector.due(); due && *due <= now_ && !s->is_down && !s->is_paused) s->detector.tick(now_);
  deliver_all();
}

void Assembly::run(Time by) {
  for (constexpr Time kStep{10}; by > Time(0); by -= kStep) advance(std::min(by, kStep));
}

std::vector<int> Assembly::alive() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); rank++)
    if (!ranks_[std::size_t(rank)]->is_down) ranks.push_back(rank);
  return ranks;
}

std::vector<int> Assembly::neighbours(int rank) const {
  const std::set<int>& all = connections_[std::size_t(rank)];
  std::vector<int> ranks(all.begin(), all.end());
  std::erase_if(ranks, [&](int other) { return cut_.contains(std::minmax(rank, other)); });
  return ranks;
}

// Opens the connections that ranks ask for after others have left.
void Assembly::connect() {
  for (const int rank : alive())
    for (std::vector<int> calls; !(calls = at(rank).detector.take_calls(now_)).empty();)
      for (const int peer : calls) connect(rank, peer);
}

void Assembly::connect(int rank, int peer) {
  if (at(peer).is_down || cut_.contains(std::minmax(rank, peer))) return at(rank).detector.unreachable(peer);
  connections_[std::size_t(rank)].insert(peer);
  connections_[std::size_t(peer)].insert(rank);
  at(rank).detector.connected(peer);
  at(peer).detector.connected(rank);
}

// At random moments, passes on the goodbyes that wait in ranks.
void Assembly::pass_on(unsigned percent) {
  for (const int rank : alive())
    if (!at(rank).is_paused && random_.percent(percent)) at(rank).detector.pass_on();
  collect();
}

void Assembly::collect() {
  for (int rank = 0; rank < size(); rank++)
    for (const std::string& message : at(rank).detector.take_outbox())
      for (const int to : neighbours(rank))
        if (!at(rank).is_down) in_flight_.push_back({to, message});
}

void Assembly::deliver(std::size_t pick) {
  std::swap(in_flight_[pick], in_flight_.back());
  const InFlight message = in_flight_.back();
  if (!random_.percent(10)) in_flight_.pop_back();  // otherwise it is delivered again
  if (at(message.to).is_paused) return held_.push_back(message);
  if (!at(message.to).is_down) at(message.to).detector.receive(message.bytes, now_);
}

void Assembly::notice(std::size_t pick) {
  std::swap(notices_[pick], notices_.back());
  const Notice n = notices_.back();
  notices_.pop_back();
  if (at(n.to).is_paused) return held_notices_.push_back(n);
  if (!at(n.to).is_down) at(n.to).detector.lost(n.about, "its control connection was closed", now_);
}

}  // namespace anello
