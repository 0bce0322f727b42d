// Requests of the user to an elastic job, and changes of its hosts.
#include <algorithm>
#include <anello/error.hpp>

#include "rendezvous/launch/processes/elastic_supervisor.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

std::string counted_processes(int count) {
  return text(count, count == 1 ? " process" : " processes");
}

void ElasticSupervisor::require_running() const {
  if (phase_ != Phase::running || view_.finished) throw Error(ErrorCode::invalid_argument, "the job is ending");
}

// Asks the process of this place to leave. A process that has not joined yet cannot be asked, so it is killed.
void ElasticSupervisor::ask_to_leave(int number) {
  Place& place = at(number);
  place.leaves = true;
  if (place.joined) return actions_.retire(number);
  actions_.order({Order::Kind::kill_rank, 0, number});
}

std::string ElasticSupervisor::resize(int processes, Clock::time_point now) {
  look(now);
  require_running();
  const auto places = std::ranges::count(places_, false, &Place::closed);
  const int most = std::min(int(places), limits_.max);
  if (processes < limits_.min || processes > most)
    throw Error(ErrorCode::invalid_argument,
                text(counted_processes(processes), processes == 1 ? " is" : " are", " not possible, only ", limits_.min,
                     " (--min-np) to ", most, " (its places, by --max-np)"));
  const int before = target_;
  wished_ = processes;
  aim_at(processes);
  for (int number = job_.size - 1; number >= 0 && staying() > processes; number--)
    if (at(number).stays()) ask_to_leave(number);
  next_look_ = now;
  return text("the job goes from ", before, " to ", counted_processes(processes));
}

std::string ElasticSupervisor::remove(const std::vector<int>& places, Clock::time_point now) {
  look(now);
  require_running();
  int living = 0, open = 0;
  bool changes = false;
  for (int number = 0; number < job_.size; number++) {
    const bool goes = std::ranges::find(places, number) != places.end();
    const bool is_used = at(number).alive ? at(number).stays() : !at(number).closed;
    living += goes && at(number).stays();
    open += is_used && !goes;
    changes |= goes && (at(number).stays() || !at(number).closed);
  }
  if (!changes)
    throw Error(ErrorCode::invalid_argument,
                text(places.size() == 1 ? "this place is" : "these places are",
                     " closed already, or will be when their processes have left; `anello status ", job_.name,
                     "` lists all places"));
  const int left = std::min(target_ - living, open);
  if (left < limits_.min)
    throw Error(ErrorCode::invalid_argument, text("only ", counted_processes(left), " would be left, and --min-np is ",
                                                  limits_.min, "; `anello resize` can start others first"));
  for (const int number : places) {
    if (at(number).alive && !at(number).leaves) ask_to_leave(number);
    at(number).closed = true;
  }
  target_ -= living;
  next_look_ = now;
  if (living == 0) return "no process is started there any more";
  return text(counted_processes(living), living == 1 ? " leaves" : " leave", " at the next commit");
}

void ElasticSupervisor::fit_places(Clock::time_point now) {
  const auto open = std::ranges::count_if(places_, [](const Place& place) { return !place.closed; });
  aim_at(std::min(int(open), wished_));
  next_look_ = now;
}

void ElasticSupervisor::aim_at(int processes) {
  fresh_ = std::max(0, fresh_ + processes - target_);
  target_ = processes;
}

void ElasticSupervisor::grow(Clock::time_point now) {
  places_.resize(std::size_t(job_.size));
  ranks_.grow(job_.size);
  fit_places(now);
}

void ElasticSupervisor::leave_places(const HostRanks& places, Clock::time_point now) {
  for (int number = places.first; number < places.first + places.count; number++) {
    target_ -= at(number).stays();  // so that a process which is started instead does not count as a restart
    if (at(number).alive && !at(number).leaves) ask_to_leave(number);
    at(number).closed = true;
  }
  fit_places(now);
}

bool ElasticSupervisor::is_empty(const HostRanks& places) const {
  const auto first = places_.begin() + places.first;
  return std::none_of(first, first + places.count, [](const Place& place) { return place.alive; });
}

std::string ElasticSupervisor::status(Clock::time_point now) const {
  std::string out =
      text("job ", job_.name, ": ", running(), " of ", target_, " processes run (--min-np ", limits_.min, ", at most ",
           job_.size, "), world ", view_.generation, ", ", restarts_, " of ", limits_.max_restarts, " restarts used\n");
  for (int number = 0; number < job_.size; number++) {
    const Place& place = places_[std::size_t(number)];
    const auto rest = std::chrono::ceil<std::chrono::seconds>(place.rests_until - now);
    const std::string state = place.alive && (place.leaves || place.has_notice) ? "leaves"
                              : place.rank >= 0                                 ? text("rank ", place.rank)
                              : place.joined && place.alive                     ? "waits for a world"
                              : place.alive                                     ? "starts"
                              : place.closed                                    ? "closed"
                              : rest.count() > 0                                ? text("rests for ", rest.count(), " s")
                                                                                : "free";
    out += text("process ", number, " on ", job_.host_of(number), ": ", state,
                place.alive ? text(", pid ", ranks_.pid(number)) : "",
                place.starts > 1 ? text(", start ", place.starts) : "", "\n");
  }
  return out;
}

}  // namespace anello::launch
