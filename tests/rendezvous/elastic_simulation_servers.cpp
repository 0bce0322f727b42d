// The servers and the network of a simulation, and the succession: how processes find the successor of a server.
// Processes choose as in rendezvous/elastic/succession.cpp, and the successor acts as RendezvousServer does.
#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "tests/rendezvous/elastic_simulation_model.hpp"

namespace anello::rendezvous {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kSlowConnection{800};  // shorter than the limit of a successor's search for others

}  // namespace

void ElasticSimulation::deliver(Server& server, Sends sends) {
  if (options_.server_dies_at_start && !server.owner && server.alive) end_while_it_sends(server, sends);
  for (const Send& send : sends)
    for (const MemberId id : send.to) {
      const std::shared_ptr<Link> link = server.links.at(id);
      check_loss(server, send.reply);
      if (link->model->link == link) link->model->has_place &= !std::holds_alternative<Failed>(send.reply);
      transmit(link, false, [this, link, reply = send.reply] {
        if (link->model->link == link) arrive(*link->model, reply);
      });
    }
  set_alarm(server);
}

// If these messages start the world of the newcomers, ends the server, and removes some of the messages' receivers.
void ElasticSimulation::end_while_it_sends(Server& server, Sends& sends) {
  for (Send& send : sends) {
    if (!std::holds_alternative<Gathered>(send.reply) || int(send.to.size()) <= options_.first) continue;
    std::erase_if(send.to, [&](MemberId) { return chance(50); });
    after({}, [this, &server] { kill_server(server); });
    if (chance(70)) cut_network();
    return;
  }
}

void ElasticSimulation::set_alarm(Server& server) {
  const std::uint64_t mine = ++server.alarm;
  if (!server.membership.deadline()) return;
  at(std::max(now_, *server.membership.deadline()), [this, &server, mine] {
    if (mine != server.alarm || !server.alive) return;
    const auto expire = [this, &server] { deliver(server, server.membership.expired(now_)); };
    if (server.owner && server.owner->stopped)
      server.owner->while_stopped.push_back(expire);
    else
      expire();
  });
}

bool ElasticSimulation::reaches(const Model* one, const Model* other) const {
  const auto side = [](const Model* model) { return model && model->on_side; };
  return !is_cut_ || side(one) == side(other);
}

// Messages of one connection keep their order. While the network is cut, messages wait. A process that is stopped takes
// them when it continues.
void ElasticSimulation::transmit(const std::shared_ptr<Link>& link, bool to_server, std::function<void()> what) {
  if (!link->open) return;
  Time& last = to_server ? link->last_to_server : link->last_from_server;
  last = std::max(last, now_ + draw(50, chance(3) ? 500'000 : 3'000));
  const auto come = std::make_shared<std::function<void()>>();
  *come = [this, link, to_server, what = std::move(what), again = std::weak_ptr(come)] {
    if (!link->open && to_server) return;
    if (!reaches(link->model, link->server->owner)) {
      if (const auto self = again.lock()) after(milliseconds(50), [self] { (*self)(); });
      return;
    }
    Model* const receiver = to_server ? link->server->owner : link->model;
    if (to_server && !link->server->alive) return;
    if (receiver && receiver->stopped)
      receiver->while_stopped.push_back(what);
    else
      what();
  };
  at(last, [come] { (*come)(); });
}

void ElasticSimulation::tell_server(Model& model, Request request) {
  if (!model.link) return;
  const std::shared_ptr<Link> link = model.link;
  transmit(link, true, [this, link, request = std::move(request)] {
    if (!link->open || !link->server->alive) return;
    Membership& membership = link->server->membership;
    const bool may_get_state = std::ranges::any_of(membership.status().processes, [&](const auto& one) {
      return !one.retires && !(one.id == std::int64_t(link->id) && std::holds_alternative<Retire>(request));
    });
    const Sends sends = membership.received(link->id, request, now_);
    check_leavers(*link, sends, may_get_state);
    deliver(*link->server, sends);
  });
}

// Looks at what the server sends after a message of this process. The state must not leave the job with its last
// process if another process may get it. The server may not have noticed yet that a process has ended.
void ElasticSimulation::check_leavers(const Link& link, const Sends& sends, bool may_get_state) {
  if (!link.model->holds || finished_) return;
  const auto other_holds = [&](const auto& one) { return one.second->model != link.model && one.second->model->holds; };
  for (const Send& send : sends) {
    if (std::ranges::count(send.to, link.id) == 0) continue;
    const auto* failed = std::get_if<Failed>(&send.reply);
    if (may_get_state && failed && failed->message.find("were asked to leave: the state") != std::string::npos)
      violated("the last process that had the state has left, although another one could have got it");
    if (std::holds_alternative<Over>(send.reply) && std::ranges::none_of(link.server->links, other_holds))
      violated("the last process that had the state was sent away as if another one had it");
  }
}

void ElasticSimulation::connect(Model& model, Server& server, const Join& join) {
  const MemberId id = next_member_++;
  const auto link = std::make_shared<Link>(Link{&server, &model, id});
  server.links[id] = link;
  model.link = link;
  model.gone = false;
  if (server.owner) note(text("process ", model.id, " goes to the server of process ", server.owner->id));
  deliver(server, server.is_away ? Sends{{{id}, ComeAgain{}}} : server.membership.joined(id, join, now_));
  if (model.leaves) tell_server(model, Retire{});
}

// Ends the connection on both sides, at different times. Messages that were sent before still arrive.
void ElasticSimulation::cut(const std::shared_ptr<Link>& link) {
  if (!link->open) return;
  Model& model = *link->model;
  if (model.world) model.world->disturbed = true;
  after(draw(4'000'000, 5'000'000), [this, link] { close(link); });
  link->open = false;
  if (model.link == link) lost_server(model, false);
}

// The server notices the end of the connection.
void ElasticSimulation::close(const std::shared_ptr<Link>& link) {
  link->open = false;
  if (link->server->alive) deliver(*link->server, link->server->membership.disconnected(link->id, now_));
}

// `closed`: the kernel of the server's host has closed the connection.
void ElasticSimulation::lost_server(Model& model, bool closed) {
  const std::shared_ptr<Link> link = model.link;
  const auto notice = [this, &model, link, closed] {
    if (!model.alive || model.link != link) return;
    model.gone = closed && !link->server->alive && reaches(&model, link->server->owner);
    model.gate.lost_server();
    if (model.stage == Stage::holding) return go_through_gate(model);
    if (model.stage != Stage::entering && model.stage != Stage::making) return;
    if (model.transfers || (model.gone && model.lineage.exists())) return look_for_successor(model);
    end(model, "lost the server");
  };
  if (model.stopped)
    model.while_stopped.push_back(notice);
  else
    notice();
}

// Divides the network into two parts for a while. A connection between the parts ends if the division lasts too long.
void ElasticSimulation::cut_network() {
  if (is_cut_ || calm_) return;
  note("the network is cut");
  is_cut_ = true;
  const std::uint64_t mine = ++cuts_;
  for (const auto& [number, world] : worlds_)
    for (const auto& [rank, model] : world->ranks)
      if (!reaches(model, world->ranks.begin()->second)) {
        world->disturbed = true;
        world_fails(world);
        break;
      }
  after(milliseconds(4000), [this, mine] {
    if (!is_cut_ || mine != cuts_) return;
    for (const auto& server : servers_)
      for (const auto& [id, link] : std::map(server->links))
        if (link->open && !reaches(link->model, server->owner)) cut(link);
  });
  after(draw(1'000, 20'000'000), [this, mine] {
    if (mine != cuts_ || !std::exchange(is_cut_, false)) return;
    note("the network is whole again");
  });
}

void ElasticSimulation::kill_server(Server& server) {
  if (!std::exchange(server.alive, false)) return;
  note(server.owner ? text("the server of process ", server.owner->id, " ends") : "the server ends");
  for (const auto& [id, link] : server.links) {
    if (!std::exchange(link->open, false)) continue;
    if (link->model->world) link->model->world->disturbed = true;
    const auto come = std::make_shared<std::function<void()>>();
    *come = [this, link = link, again = std::weak_ptr(come)] {
      const auto self = again.lock();
      if (!reaches(link->model, link->server->owner) && self) return after(milliseconds(50), [self] { (*self)(); });
      if (link->model->link == link && !link->model->gone) lost_server(*link->model, true);
    };
    at(std::max(now_ + draw(20, 2'000), link->last_from_server), [come] { (*come)(); });
  }
}

void ElasticSimulation::leave_server(Model& model) {
  const std::shared_ptr<Link> link = std::exchange(model.link, nullptr);
  if (!link || !link->open) return;
  // The messages that the process has sent arrive before the end of its connection.
  at(std::max(now_, link->last_to_server) + microseconds(1), [this, link] {
    if (link->open) close(link);
  });
}

void ElasticSimulation::send_away(Server& server, const Reply& last_word) {
  Send send{{}, last_word};
  for (const ElasticStatus::Process& one : server.membership.status().processes) send.to.push_back(MemberId(one.id));
  Model& owner = *server.owner;
  server.turn++;
  server.serves = false;
  const ElasticLimits limits{options_.min, options_.max, options_.min, kBelowMinimum, kSilence, true};
  std::destroy_at(&server.membership);
  std::construct_at(&server.membership, limits, kStartPatience, ++next_incarnation_);
  if (owner.lineage.exists()) server.membership.inherit(owner.lineage, owner.generation, owner.begun);
  deliver(server, {std::move(send)});
}

void ElasticSimulation::listen(Model& model) {
  if (model.heir) return;
  const ElasticLimits limits{options_.min, options_.max, options_.min, kBelowMinimum, kSilence, true};
  servers_.push_back(std::make_unique<Server>(limits, &model, now_));
  model.heir = servers_.back().get();
}

void ElasticSimulation::inherit(Model& model) {
  model.heir->is_away = false;
  model.heir->heir.lineage = model.lineage;
  if (!model.heir->serves) send_away(*model.heir, ComeAgain{});
}

void ElasticSimulation::look_for_successor(Model& model) {
  leave_server(model);
  model.life++;
  model.stage = Stage::entering;
  model.transfers = true;
  if (const std::shared_ptr<World> world = std::exchange(model.world, nullptr)) {
    world->disturbed = true;
    world_fails(world);
  }
  send_away(*model.heir, ComeAgain{});
  model.heir->is_away = true;
  after(milliseconds(20), [this, &model, life = model.life] {
    if (model.alive && model.life == life) try_successor(model, 0);
  });
}

void ElasticSimulation::try_successor(Model& model, int rank) {
  if (rank == 0) model.for_each_address = model.search_time.for_each_address();
  if (model.search_time.left().count() == 0) return end(model, "lost the server: no process can go on as the server");
  const auto go_on = [this, &model, life = model.life](Duration delay, int next) {
    model.search_time.spend(std::chrono::ceil<milliseconds>(delay));
    after(delay, [this, &model, life, next] {
      const auto go = [this, &model, life, next] {
        if (model.alive && model.life == life) try_successor(model, next);
      };
      if (model.stopped)
        model.while_stopped.push_back(go);
      else
        go();
    });
  };
  if (rank == model.lineage.rank) return succeed(model);
  Model& other = *processes_.at(model.lineage.newest().at(std::size_t(rank)).pid);
  if (!reaches(&model, &other) || (other.stopped && other.heir->alive)) return go_on(model.for_each_address, rank + 1);
  if (!other.heir->alive) return go_on(draw(50, 3'000), rank + 1);
  const std::string objection = other.heir->heir.objection(model.heir->heir.claim(rank));
  if (objection.starts_with(kGoneOn)) return end(model, "lost the server: the others have gone on");
  if (!objection.empty()) return go_on(draw(50, 3'000), rank + 1);
  if (options_.is_slow && model.for_each_address < kSlowConnection) return go_on(model.for_each_address, rank + 1);
  Join join = model.join;
  join.rank = model.lineage.rank;
  join.local_rank = model.local_rank;
  connect(model, *other.heir, join);
  tell_server(model, Enter{model.generation});
  const std::shared_ptr<Link> link = model.link;
  watch_link(link);
}

// If a process waits at a successor that does not answer, the process looks for another successor.
void ElasticSimulation::watch_link(const std::shared_ptr<Link>& link) {
  after(kSilence, [this, link] {
    Model& model = *link->model;
    if (!model.alive || model.link != link || !model.transfers) return;
    const Model& owner = *link->server->owner;
    if (!model.stopped && (owner.stopped || !reaches(&model, &owner))) return look_for_successor(model);
    watch_link(link);
  });
}

// A process regularly checks whether it was stopped. Carries out all checks that were due since the last one, except
// while the process was stopped.
void ElasticSimulation::look_for_stops(Model& model) {
  if (!model.heir) return;
  Time& last = model.heir->looked;
  for (; last + Stops::kInterval <= now_; last += Stops::kInterval) model.heir->heir.stops.look(last);
}

void ElasticSimulation::succeed(Model& model) {
  note(text("process ", model.id, " goes on as the server"));
  inherit(model);
  Server& server = *model.heir;
  server.serves = true;
  for (const Peers& world : model.lineage.worlds)
    for (const Peer& peer : world)
      if (peer.pid != model.id) watch(model, peer, server.turn);
  Join join = model.join;
  join.rank = model.lineage.rank;
  join.local_rank = model.local_rank;
  connect(model, server, join);
  tell_server(model, Enter{model.generation});
}

void ElasticSimulation::watch(Model& successor, const Peer& peer, std::uint64_t turn) {
  Server& server = *successor.heir;
  if (!server.alive || server.turn != turn || !server.membership.inherits()) return;
  const auto again = [this, &successor, peer, turn] { watch(successor, peer, turn); };
  if (successor.stopped) return successor.while_stopped.push_back(again);
  Model& other = *processes_.at(peer.pid);
  using Finding = Inheritance::Finding;
  const int rank = server.heir.rank_of(peer);
  Look::Outcome seen = Look::Outcome::answers;
  if (!reaches(&successor, &other) || (other.stopped && other.heir->alive))
    seen = Look::Outcome::silent;
  else if (!other.heir->alive)
    seen = Look::Outcome::no_entry;
  else if (!other.heir->heir.objection(server.heir.claim(rank)).empty())
    seen = Look::Outcome::rejects;
  look_for_stops(successor);
  const Finding finding = server.heir.finding(peer, seen, now_);
  if (finding == Finding::present && rank >= 0 && rank < successor.lineage.rank) {
    send_away(server, ComeAgain{});
    server.is_away = true;
    return;
  }
  deliver(server, server.membership.found(peer, finding, now_));
  after(finding == Finding::silent ? milliseconds(1250) : milliseconds(250), again);
}

}  // namespace anello::rendezvous
