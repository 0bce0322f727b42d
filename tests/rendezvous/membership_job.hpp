// A membership for tests, with functions that act as its processes.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/server/membership.hpp"
#include "tests/rendezvous/joins.hpp"

namespace anello::rendezvous {

// A membership with the messages that each process has received. Its functions act as the processes.
class Job {
 public:
  explicit Job(ElasticLimits limits) : membership(limits, std::chrono::seconds(60), 42) {}

  // Lets a process join and enter. Returns its number.
  MemberId come(const std::string& host = "a", int local_rank = -1, int place = -1) {
    const MemberId id = next_++;
    Join join = on(host, -1, -1, local_rank);
    join.place = place;
    pass(membership.joined(id, join, now));
    receive(id, Enter{0});
    return id;
  }
  void receive(MemberId id, const Request& request) { pass(membership.received(id, request, now)); }
  void enter(MemberId id) { receive(id, Enter{assigned(id).generation}); }
  void expect(int newcomers) { pass(membership.expect(newcomers, now)); }
  void retire(int place) {
    pass(membership.retire([=](MemberId, const ElasticProcess& one) { return one.join.place == place; }, now));
  }
  void end(MemberId id) { pass(membership.disconnected(id, now)); }
  // All processes of the newest world exchange once and leave.
  void complete() {
    const std::vector<MemberId> ranks = of_newest();
    for (const MemberId id : ranks) receive(id, Contribution{"x"});
    for (const MemberId id : ranks) receive(id, Leave{1});
    for (const MemberId id : ranks) receive(id, Begun{});
  }
  void wait(std::chrono::milliseconds time) {
    const Time until = now + time;
    while (membership.deadline() && *membership.deadline() <= until) {
      now = std::max(now, *membership.deadline());
      pass(membership.expired(now));
    }
    now = until;
  }
  // Like wait(), but all processes that are not stopped answer inquiries.
  void answer_for(std::chrono::milliseconds time) {
    for (std::chrono::milliseconds passed{0}; passed < time; passed += std::chrono::milliseconds(500)) {
      wait(std::chrono::milliseconds(500));
      for (const auto& [id, all] : std::map(got))
        if (std::ranges::count(stopped, id) == 0) receive(id, Present{});
    }
  }
  std::vector<MemberId> of_newest() const {
    std::map<int, MemberId> by_rank;
    for (const auto& [id, all] : got)
      if (newest<Assigned>(id) && newest<Assigned>(id)->generation == membership.generation())
        by_rank[newest<Assigned>(id)->rank] = id;
    std::vector<MemberId> ids;
    for (const auto& [rank, id] : by_rank) ids.push_back(id);
    return ids;
  }
  template <class Message>
  const Message* newest(MemberId id) const {
    const auto at = got.find(id);
    if (at == got.end()) return nullptr;
    for (auto one = at->second.rbegin(); one != at->second.rend(); one++)
      if (const auto* message = std::get_if<Message>(&*one)) return message;
    return nullptr;
  }
  const Assigned& assigned(MemberId id) const {
    static const Assigned none{0, -1, 0};
    const auto* message = newest<Assigned>(id);
    return message ? *message : none;
  }
  std::string failure(MemberId id) const {
    const auto* message = newest<Failed>(id);
    return message ? message->message : "none";
  }
  template <class Message>
  std::size_t count(MemberId id) const {
    const auto at = got.find(id);
    if (at == got.end()) return 0;
    return std::size_t(
        std::ranges::count_if(at->second, [](const Reply& reply) { return std::holds_alternative<Message>(reply); }));
  }

  Membership membership;
  Time now{};
  std::map<MemberId, std::vector<Reply>> got;
  std::vector<MemberId> stopped;

  void pass(const Sends& sends) {
    for (const Send& send : sends)
      for (const MemberId id : send.to) got[id].push_back(send.reply);
  }

 private:
  MemberId next_ = 1;
};

// A running world of three.
struct Three : Job {
  explicit Three(ElasticLimits limits = {.min = 2, .max = 4, .first = 3}) : Job(limits) {
    for (MemberId* id : {&a, &b, &c}) *id = come();
    complete();
  }
  MemberId a = 0, b = 0, c = 0;
};

// A running world of four processes, at places 0 to 3 of their launcher. The process at place 3 has joined first.
class FourAtPlaces : public Job {
 public:
  explicit FourAtPlaces(ElasticLimits limits = {.min = 1, .max = 4, .first = 4}) : Job(limits) {
    for (int place = 3; place >= 0; place--) at[place] = come("a", -1, place);
    complete();
  }
  MemberId at[4];
};

}  // namespace anello::rendezvous
