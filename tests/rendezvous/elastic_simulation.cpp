#include "tests/rendezvous/elastic_simulation.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "ring/base/text.hpp"
#include "tests/rendezvous/elastic_simulation_model.hpp"

namespace anello::rendezvous {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr hours kEnd{6};  // nothing may take so long
constexpr milliseconds kNewcomers{1000};
constexpr milliseconds kFirstBatch{20'000}, kBetweenBatches{100'000};

}  // namespace

ElasticSimulation::ElasticSimulation(const Options& options) : options_(options), random_(options.seed) {
  const ElasticLimits limits{options.min, options.max, options.first, kBelowMinimum, kSilence, options.server_dies};
  servers_.push_back(std::make_unique<Server>(limits, nullptr, now_));
}

ElasticSimulation::~ElasticSimulation() = default;

void ElasticSimulation::at(Time when, std::function<void()> what) {
  queue_.emplace(when, std::move(what));
}

ElasticSimulation::Duration ElasticSimulation::draw(int min_us, int max_us) {
  return microseconds(min_us + int(random_() % std::uint64_t(max_us - min_us + 1)));
}

void ElasticSimulation::note(const std::string& line) {
  script_ += text(std::chrono::duration_cast<microseconds>(now_.time_since_epoch()).count(), " us: ", line, "\n");
}

void ElasticSimulation::violated(const std::string& what) {
  if (violation_.empty()) violation_ = text("seed ", options_.seed, ": ", what);
  note("VIOLATION " + what);
}

std::vector<ElasticSimulation::Model*> ElasticSimulation::living() {
  std::vector<Model*> all;
  for (const auto& [id, model] : processes_)
    if (model->alive) all.push_back(model.get());
  return all;
}

void ElasticSimulation::run() {
  for (int i = 0; i < options_.first; i++) after(draw(0, 100'000), [this] { add_process(); });
  if (options_.server_dies_at_start)
    for (int i = 0; i < options_.first; i++) after(kNewcomers, [this] { add_process(); });
  Time when = now_ + milliseconds(200);
  for (int i = 0; i < options_.events; i++) {
    when += chance(70) ? draw(0, 60'000) : draw(0, 8'000'000);
    at(when, [this] { random_event(); });
  }
  for (int batch = 0; batch < options_.batches; batch++)
    at(now_ + kFirstBatch + batch * kBetweenBatches, [this, batch] { launch(batch, 1 + int(random_() % 3)); });
  if (options_.server_dies && !options_.server_dies_at_start)
    at(draw(0, options_.long_stops ? 1'000'000 : 20'000'000) + Time{}, [this] { kill_server(*servers_.front()); });
  // The launcher replaces missing processes, and no process stays stopped for ever.
  at(when + std::chrono::seconds(20), [this] {
    calm_ = true;
    is_cut_ = false;
    for (Model* model : living()) unstop(*model);
    if (finished_) return;
    for (int count = int(living().size()); count < options_.first; count++) add_process();
  });
  while (!queue_.empty() && violation_.empty()) {
    const auto first = queue_.begin();
    now_ = std::max(now_, first->first);
    if (now_.time_since_epoch() > kEnd) break;
    const std::function<void()> what = std::move(first->second);
    queue_.erase(first);
    what();
  }
  if (violation_.empty()) check_end();
}

void ElasticSimulation::arrive(Model& model, const Reply& reply) {
  if (!model.alive) return;
  if (std::holds_alternative<ComeAgain>(reply)) {
    if (!model.lineage.exists()) return end(model, "lost the server: another process is the successor");
    return look_for_successor(model);
  }
  if (const auto* failed = std::get_if<Failed>(&reply)) {
    lost_ |= failed->message.find("state of the job is lost") != std::string::npos;
    if (failed->message.find("were asked to leave") != std::string::npos) released_++;
    return end(model, failed->message);
  }
  if (std::holds_alternative<Over>(reply)) {
    if (!finished_ && !model.leaves) violated("a process was sent away that was not asked to leave");
    if (!finished_) released_++;
    return end(model, "the job is over");
  }
  if (std::holds_alternative<AskPresence>(reply)) return tell_server(model, Present{});
  if (std::holds_alternative<AskCommits>(reply)) {
    model.gate.asked(model.revision);
    return tell_server(model, Commits{model.revision});
  }
  if (const auto* boundary = std::get_if<Boundary>(&reply)) {
    model.gate.announced(boundary->commit);
    if (boundary->commit == 0 && model.world) model.world->disturbed = true;
    if (model.stage == Stage::holding) go_through_gate(model);
    return;
  }
  if (const auto* assigned = std::get_if<Assigned>(&reply); assigned && model.stage == Stage::entering)
    return make(model, *assigned);
  if (model.stage != Stage::making) return;
  if (std::holds_alternative<Again>(reply)) return enter(model);
  if (std::holds_alternative<Gathered>(reply)) {
    // The ranks connect to each other, so they notice dead ranks now.
    if (options_.server_dies) {
      const Assigned place{.generation = model.generation, .rank = model.rank, .incarnation = model.incarnation};
      model.lineage.starts(place, model.world->peers, model.world->earlier, model.agreed);
      inherit(model);
    }
    pass(model, Stage::making, [this, &model] {
      if (model.world->failed) return enter(model);
      tell_server(model, Leave{1});
      report(model);
    });
  }
}

void ElasticSimulation::random_event() {
  const std::vector<Model*> all = living();
  const std::uint64_t kind = options_.long_stops ? 99 : random_() % 100;
  if (kind < 20 || all.empty()) {
    if (!finished_) add_process();
    return;
  }
  events_done_++;
  Model& model = *all[random_() % all.size()];
  if (options_.notices && kind < 35) return ask_to_leave(model);
  if (kind < 60) return kill(model);
  if (kind < 70 || (kind < 75 && !options_.server_dies)) {
    note(text("process ", model.id, " is cut off from the server"));
    return model.link ? cut(model.link) : void();
  }
  if (kind < 75) return cut_network();
  stop(model);
}

void ElasticSimulation::ask_to_leave(Model& model) {
  if (std::exchange(model.leaves, true)) return;
  note(text("process ", model.id, " is asked to leave"));
  const auto pass_on = [this, &model] {
    if (model.alive) tell_server(model, Retire{});
  };
  if (model.stopped)
    model.while_stopped.push_back(pass_on);
  else
    pass_on();
}

void ElasticSimulation::stop(Model& model) {
  if (model.stopped) return;
  note(text("process ", model.id, " is stopped"));
  look_for_stops(model);
  model.stopped = true;
  if (model.world) model.world->disturbed = true;
  const std::shared_ptr<World> world = model.world;
  after(kSilence, [this, &model, world] {
    if (model.stopped && world && model.world == world) world_fails(world);  // the ranks notice its silence
  });
  after(options_.long_stops ? draw(4'000'000, 40'000'000) : draw(1'000, 15'000'000), [this, &model] { unstop(model); });
}

void ElasticSimulation::unstop(Model& model) {
  if (!std::exchange(model.stopped, false)) return;
  note(text("process ", model.id, " continues"));
  if (model.heir) model.heir->heir.stops.look(model.heir->looked = now_);
  for (auto& missed : std::exchange(model.while_stopped, {})) missed();
}

// No rank of a world may begin with fewer commits than another rank of this world had completed.
void ElasticSimulation::check_start(const std::shared_ptr<World>& world, const elastic::Decision& decision) {
  note(text("world ", world->generation, " of ", world->size, " goes on at ", decision.revision));
  if (world->failed) return;  // the others may be in another world already
  const std::uint64_t job = world->ranks.at(decision.sources.front())->job;
  if (complete_.contains({job, decision.revision + 1}))
    violated(text("a world goes on at ", decision.revision, ", but one has completed the next commit"));
  std::set<std::uint64_t> states;
  for (const int source : decision.sources) states.insert(world->ranks.at(source)->state);
  if (states.size() > 1 && !decision.fresh) violated("the sources have different states");
  for (const auto& [rank, model] : world->ranks)
    if (model->holds && model->clean && model->revision > decision.revision)
      violated(
          text("rank ", rank, " had completed ", model->revision, ", and the world goes on at ", decision.revision));
}

// Two worlds must not go on side by side: all ranks that complete a commit have the same state.
void ElasticSimulation::check_commit(const Model& model) {
  if (++model.world->commits[model.revision] < model.world->size) return;
  const auto [known, is_new] = complete_.emplace(std::pair(model.job, model.revision), model.state);
  if (known->second != model.state) violated(text("two worlds have completed commit ", model.revision));
}

// The state is not lost while a process that can enter a world has it.
void ElasticSimulation::check_loss(const Server& server, const Reply& reply) {
  const auto* failed = std::get_if<Failed>(&reply);
  if (failed && failed->message.find("lost its place") != std::string::npos &&
      failed->message.find("silent") == std::string::npos && failed->message.find("did not start") == std::string::npos)
    violated("a process that did nothing wrong has lost its place: " + failed->message);
  if (!failed || failed->message.find("state of the job is lost") == std::string::npos) return;
  for (Model* model : living())
    if (model->link && model->link->open && model->link->server == &server && model->has_place && model->holds &&
        model->clean && !model->leaves)
      violated(text("the state is called lost, but process ", model->id, " has it"));
}

// The states of all processes that have finished are equal. On the way to them, each revision was applied once.
void ElasticSimulation::check_end() {
  for (Model* model : living()) violated(text("process ", model->id, " never ended; stage ", int(model->stage)));
  std::set<std::uint64_t> last;
  for (const auto& [id, model] : processes_)
    if (model->revision == options_.steps && model->clean && model->holds) last.insert(model->state);
  for (const std::uint64_t state : last) {
    std::uint64_t commits = 0, at = state;
    for (; at != kFirstState && parents_.contains(at); commits++) at = parents_.at(at);
    if (at != kFirstState || commits != options_.steps)
      violated(text("a final state was made by ", commits, " commits instead of ", options_.steps));
  }
  const auto says = [&](const char* words) { return script_.find(words) != std::string::npos; };
  const bool is_ended_by_server =
      options_.server_dies && (says("lost the server") || says("lost its place") || says("more than half"));
  const bool nobody_stayed = options_.server_dies && killed_ + released_ == processes_.size();
  if (!finished_ && !lost_ && !is_ended_by_server && !nobody_stayed && !says("processes were there within"))
    violated("the job neither finished nor ended with a reason");
}

}  // namespace anello::rendezvous
