// The stages of a simulated process: it enters, makes its world, gets the state, trains and leaves.
#include <algorithm>
#include <anello/error.hpp>
#include <set>
#include <utility>

#include "ring/base/text.hpp"
#include "ring/elastic/stripes.hpp"
#include "tests/rendezvous/elastic_simulation_model.hpp"
#include "tests/rendezvous/joins.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::microseconds;
constexpr std::chrono::milliseconds kJoinLimit{60'000};  // the launcher's limit for a process that has not joined

// The state after one more commit, made by the world of this generation and incarnation.
std::uint64_t next_state(std::uint64_t state, std::uint64_t revision,
                         const std::pair<std::uint32_t, std::uint64_t>& by) {
  std::uint64_t mixed = (state ^ (revision << 32 | by.first) ^ by.second << 56) * 0x9e3779b97f4a7c15;
  mixed ^= mixed >> 29;
  return mixed & ~(1ull << 63);
}

}  // namespace

void ElasticSimulation::add_process() {
  const auto serves = [](const auto& server) { return server->alive && server->serves; };
  const auto server = std::ranges::find_if(servers_, serves);
  if (server == servers_.end()) return;
  const MemberId id = processes_.size() + 1;
  Model& model = *processes_.emplace(id, std::make_unique<Model>()).first->second;
  model.id = id;
  note(text("process ", id, " joins"));
  model.join = on(id % 2 || options_.one_host ? "a" : "b");
  model.on_side = options_.server_dies_at_start ? chance(50) : id % 2 == 0;
  connect(model, **server, model.join);
  after(draw(0, 30'000), [this, &model] {
    if (model.alive) tell_server(model, Enter{0});
  });
}

// The launcher starts processes together. Some end before they have joined, and some hang. The launcher notices an end
// a moment later.
void ElasticSimulation::launch(int batch, int count) {
  report_newcomers(count);
  for (int i = 0; i < count; i++) {
    const bool hangs = chance(10), joins = !hangs && chance(85);
    const Duration start = hangs ? kJoinLimit : draw(0, 20'000'000);
    after(start, [this, batch, joins] {
      if (joins && !finished_) {
        add_process();
        batches_joined_.insert(batch);
      }
      after(draw(0, 100'000), [this] { report_newcomers(-1); });
    });
  }
}

void ElasticSimulation::report_newcomers(int more) {
  newcomers_ += more;
  Server& server = *servers_.front();
  if (!server.alive) return;
  deliver(server, server.membership.expect(newcomers_, now_));
  set_alarm(server);
}

// Moves the process to its next stage after a delay, if it is then still in stage `from` of the same life.
void ElasticSimulation::pass(Model& model, Stage from, const std::function<void()>& what) {
  after(draw(20, 5'000), [this, &model, from, what, life = model.life] {
    if (!model.alive || model.stage != from || model.life != life) return;
    if (model.stopped)
      model.while_stopped.push_back([&model, from, what, life] {
        if (model.alive && model.stage == from && model.life == life) what();
      });
    else
      what();
  });
}

void ElasticSimulation::enter(Model& model) {
  model.life++;
  model.stage = Stage::entering;
  if (model.world) {
    model.world->disturbed = true;
    world_fails(model.world);  // its connections are closed
  }
  model.world.reset();
  if (model.link && model.link->open) return tell_server(model, Enter{model.generation});
  if (!model.gone || !model.lineage.exists()) return end(model, "lost the server");
  look_for_successor(model);
}

void ElasticSimulation::make(Model& model, const Assigned& assigned) {
  if (assigned.size > options_.max) violated(text("a world has ", assigned.size, " ranks"));
  if (assigned.generation <= model.generation) violated("a process was given an older generation");
  if (model.local_rank >= 0 && model.local_rank != assigned.local_rank)
    violated(text("the local rank of process ", model.id, " changed"));
  model.life++;
  model.stage = Stage::making;
  model.generation = assigned.generation;
  model.incarnation = assigned.incarnation;
  model.transfers = false;
  model.rank = assigned.rank;
  model.local_rank = assigned.local_rank;
  model.begun = assigned.begun;
  model.gate.enter_world();
  auto& world = worlds_[{assigned.generation, assigned.incarnation}];
  if (!world) world = std::make_shared<World>();
  world->generation = assigned.generation;
  world->size = std::size_t(assigned.size);
  if (!world->ranks.emplace(assigned.rank, &model).second) violated("two processes have one rank");
  model.world = world;
  world->peers.resize(world->size);
  if (options_.server_dies) listen(model);
  world->peers[std::size_t(assigned.rank)] = model.peer();
  if (assigned.rank == 0) world->earlier = model.lineage.worlds;
  pass(model, Stage::making, [this, &model] {
    model.agreed = now_;
    tell_server(model, Contribution{"x"});
  });
}

// Ranks that wait for others notice the failure. A rank that computes, or waits for the server, notices the failure
// when it next needs the others.
void ElasticSimulation::world_fails(const std::shared_ptr<World>& world) {
  if (std::exchange(world->failed, true)) return;
  for (auto& [model, passed] : std::exchange(world->at_barrier, {})) notice_failure(*model);
  for (const auto& [model, life] : world->passing)
    if (model->alive && !model->stopped && model->life == life && chance(50)) enter(*model);
}

void ElasticSimulation::notice_failure(Model& model) {
  after(draw(100, 50'000), [this, &model, world = model.world, life = model.life] {
    const auto notice = [this, &model, world, life] {
      if (model.alive && model.world == world && model.life == life) enter(model);
    };
    if (model.stopped)
      model.while_stopped.push_back(notice);
    else
      notice();
  });
}

// `passed` is called when all ranks of the world have come, unless the world fails before that on this rank.
void ElasticSimulation::come_to_barrier(Model& model, std::function<void()> passed) {
  const std::shared_ptr<World> world = model.world;
  if (world->ended_at && !world->disturbed) violated("a rank was left behind at the planned end of its world");
  if (world->ended_at) world_fails(world);
  if (std::ranges::any_of(world->ranks, [&](const auto& one) { return !reaches(&model, one.second); }))
    world_fails(world);
  if (world->failed) return notice_failure(model);
  world->at_barrier.emplace_back(&model, std::move(passed));
  if (world->at_barrier.size() < world->size) return;
  world->passing.clear();
  for (auto& [other, then] : std::exchange(world->at_barrier, {})) {
    world->passing.emplace_back(other, other->life);
    pass(*other, other->stage, then);
  }
  if (!calm_ && chance(options_.sabotage)) kill_soon(*world->ranks.at(int(random_() % world->size)));
}

// Kills the process while some ranks have passed the barrier and others have not.
void ElasticSimulation::kill_soon(Model& model) {
  after(draw(0, 5'000), [this, &model] {
    if (model.alive && !calm_) kill(model);
  });
}

void ElasticSimulation::report(Model& model) {
  model.life++;
  model.stage = Stage::reporting;
  model.world->reports[model.rank] = {model.holds, model.clean, model.revision, {}};
  model.world->begun |= model.begun;
  come_to_barrier(model, [this, &model] {
    std::vector<elastic::Report> reports;
    for (const auto& [rank, one] : model.world->reports) reports.push_back(one);
    try {
      receive(model, elastic::decide(reports, model.world->begun));
    } catch (const Error& error) {
      for (const elastic::Report& one : reports)
        if (one.holds && one.clean) violated("the state is called lost, but a rank of the world has it");
      lost_ = true;
      end(model, error.what());
    }
  });
}

void ElasticSimulation::receive(Model& model, const elastic::Decision& decision) {
  model.life++;
  model.stage = Stage::receiving;
  if (decision.fresh) {
    if (model.world->job == 0) model.world->job = ++jobs_;
    model.job = model.world->job;
  }
  if (model.rank == 0) check_start(model.world, decision);
  const bool receives = std::ranges::count(decision.receivers, model.rank) > 0;
  if (model.rank == 0 && !calm_ && chance(20 * options_.sabotage))
    kill_soon(*model.world->ranks.at(decision.sources[random_() % decision.sources.size()]));
  std::optional<std::uint64_t> state;
  if (receives) {
    model.clean = false;
    model.state = next_garbage_++;
    state = received(*model.world, model.rank, decision);
  }
  const std::uint64_t job = model.world->ranks.at(decision.sources.front())->job;
  come_to_barrier(model, [this, &model, decision, state, job] {
    model.state = state.value_or(model.state);
    if (!decision.fresh) model.job = job;
    model.revision = decision.revision;
    model.holds = model.clean = true;
    if (options_.server_dies) {
      if (model.rank == 0 && model.link && model.link->server->owner) successions_++;
      model.begun = true;
      model.lineage.trains();
      model.search_time.begin_anew();
      inherit(model);
    }
    tell_server(model, Begun{});
    compute(model);
  });
}

// Returns the state that consists of the parts of all sources.
std::uint64_t ElasticSimulation::received(const World& world, int rank, const elastic::Decision& decision) {
  constexpr std::uint64_t kBytes = 600'000'000;
  std::set<std::uint64_t> parts;
  std::uint64_t bytes = 0;
  for (const elastic::Stripe& each : elastic::stripes_of(decision, std::vector<int>(world.size), kBytes))
    if (std::ranges::count(each.receivers, rank) > 0) {
      parts.insert(world.ranks.at(each.source)->state);
      bytes += each.end - each.begin;
    }
  if (!world.failed && (parts.size() != 1 || bytes != kBytes)) violated(text("rank ", rank, " got no whole state"));
  return *parts.begin();
}

void ElasticSimulation::compute(Model& model) {
  model.life++;
  model.stage = Stage::computing;
  if (model.revision == options_.steps) {
    model.stage = Stage::finished;
    come_to_barrier(model, [this, &model] { end(model, "finished"); });
    return;
  }
  const Duration work = chance(2) ? draw(0, 20'000'000) : draw(100, 20'000);
  after(work, [this, &model, life = model.life] {
    const auto done = [this, &model, life] {
      if (model.alive && model.life == life) come_to_barrier(model, [this, &model] { commit(model); });
    };
    if (model.stopped)
      model.while_stopped.push_back(done);
    else
      done();
  });
}

void ElasticSimulation::commit(Model& model) {
  const std::uint64_t before = model.state;
  model.state = next_state(before, model.revision, {model.generation, model.incarnation});
  model.revision++;
  const auto [known, is_new] = parents_.emplace(model.state, before);
  if (!is_new && known->second != before) violated("one state follows two");
  check_commit(model);
  go_through_gate(model);
}

void ElasticSimulation::go_through_gate(Model& model) {
  model.life++;
  switch (model.gate.after(model.revision)) {
    case CommitGate::Step::go_on:
      return compute(model);
    case CommitGate::Step::hold:
      model.stage = Stage::holding;
      return;
    case CommitGate::Step::end:
      return leave_as_planned(model);
  }
}

void ElasticSimulation::leave_as_planned(Model& model) {
  const std::shared_ptr<World> world = std::exchange(model.world, nullptr);
  if (world->ended_at && *world->ended_at != model.revision) violated("the ranks end their world at different commits");
  world->ended_at = model.revision;
  if (!world->at_barrier.empty()) {
    if (!world->disturbed) violated("a rank was left behind at the planned end of its world");
    world_fails(world);  // those that wait there need this rank
  }
  enter(model);
}

void ElasticSimulation::end(Model& model, const std::string& why) {
  if (!model.alive) return;
  note(text("process ", model.id, " ends: ", why));
  if (why == "finished") {
    finished_ = true;
    tell_server(model, Done{});
    model.world.reset();
  }
  if (model.world) model.world->disturbed = true;
  model.alive = false;
  model.life++;
  model.stage = Stage::ended;
  if (model.world) world_fails(model.world);
  leave_server(model);
  if (!model.heir) return;
  if (why == "killed" || !model.heir->serves) return kill_server(*model.heir);
  deliver(*model.heir, model.heir->membership.hand_over(now_));
  end_heir(model, finished_ ? std::optional(now_ + kStartPatience) : std::nullopt);
}

// A successor that has left its job serves the others until they have gone to the next server, or have finished too.
// Its scheduler may kill it before that.
void ElasticSimulation::end_heir(Model& model, std::optional<Time> limit) {
  const bool waits = !model.heir->membership.status().processes.empty() && (!limit || now_ < *limit);
  if (!waits || (!calm_ && chance(1))) return kill_server(*model.heir);
  after(std::chrono::milliseconds(20), [this, &model, limit] { end_heir(model, limit); });
}

void ElasticSimulation::kill(Model& model) {
  if (model.alive) killed_++;
  end(model, "killed");
}

}  // namespace anello::rendezvous
