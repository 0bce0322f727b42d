#include "rendezvous/launch/run/attempt.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/launch/job/layout.hpp"
#include "rendezvous/launch/job/master.hpp"
#include "rendezvous/launch/processes/elastic_supervisor.hpp"
#include "rendezvous/launch/processes/fixed_supervisor.hpp"
#include "rendezvous/launch/processes/local_ranks.hpp"
#include "rendezvous/launch/processes/memory_events.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "ring/base/config.hpp"
#include "ring/base/cores.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/net/addresses.hpp"

namespace anello::launch {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLastBytes{1000}, kEmergency{5000};
constexpr Cooldown kPauseBeforeRestart{milliseconds(1000),
                                       milliseconds(60000)};  // how long the launcher waits before a restart

// Returns the places that this word means. It is the number of a place, or the name of a host and means all places
// there.
std::vector<int> places_named(const Job& job, const std::string& word) {
  std::vector<int> out;
  for (const HostRanks& here : job.layout)
    for (int place = here.first; place < here.first + here.count; place++)
      if (here.host == word || text(place) == word) out.push_back(place);
  if (out.empty())
    throw Error(ErrorCode::invalid_argument,
                text("the job has no place and no host '", word, "'; `anello status ", job.name, "` lists them"));
  return out;
}

// This function is used if ranks run on other hosts, because this process cannot count the kills there.
std::optional<std::uint64_t> no_kills_known() {
  return std::nullopt;
}

}  // namespace

Attempt::Attempt(const Job& job, const RendezvousHooks& hooks, LauncherProcess& launcher)
    : job_(job), launcher_(launcher), rank_exited_(hooks.exited), output_(job), supervisor_(make_supervisor(hooks)) {
  if (launcher.limit) supervisor_->end_at(*launcher.limit);
  ranks_ = make_ranks();
  if (elastic_) requests_.emplace(job.name, [this](const std::string& request) { return answer(request); });
  if (!job.remote) learn_cores(job.layout.front(), available_cores().count());
}

std::unique_ptr<Supervisor> Attempt::make_supervisor(const RendezvousHooks& hooks) {
  const auto print = [this](const std::string& sentence) {
    if (!failed_at_) failed_at_ = output_.lines();
    output_.print(sentence);
  };
  const auto pass_on = [this](const Order& order) {
    if (order.kind == Order::Kind::start_rank) output_.end_line(order.rank);
    ranks_->order(order);
  };
  Supervisor::Actions actions{.order = pass_on,
                              .abort = hooks.abort,
                              .print = print,
                              .retire = hooks.retire,
                              .expect = hooks.expect,
                              .newest_world = hooks.newest_world,
                              .out_of_memory_kills = job_.remote ? no_kills_known : out_of_memory_kills};
  if (job_.elastic) {
    auto supervisor = std::make_unique<ElasticSupervisor>(job_, std::move(actions), hooks.membership);
    elastic_ = supervisor.get();
    return supervisor;
  }
  return std::make_unique<FixedSupervisor>(job_, std::move(actions));
}

std::unique_ptr<RankProcesses> Attempt::make_ranks() {
  raise_open_files_limit(job_.started_ranks());
  if (!job_.remote) check_this_host();
  const Inherited inherited{launcher_.signals.mask_before(), launcher_.files.now, launcher_.argv};
  std::vector<RankEnds> ends;
  for (const HostRanks& here : job_.layout) std::ranges::move(make_ends(here), std::back_inserter(ends));
  RankEvents events;
  events.reported = [this](const Report& report) {
    if (report.kind == Report::Kind::exited) rank_exited_(report.rank);
    if (report.kind == Report::Kind::signal_taken) input_.end();
    supervisor_->reported(report, Clock::now());
  };
  events.last_word = [this](const world::LastWord& word) { supervisor_->received(word, Clock::now()); };
  events.host_lost = [this](const HostLoss& loss) { lose(loss); };
  events.cores_known = [this](const HostRanks& here, double cores) { learn_cores(here, cores); };
  events.ended = [this](const std::string& how) {
    if (!supervisor_->over()) supervisor_->keeper_gone(how);
  };
  if (job_.remote) {
    auto remote = std::make_unique<RemoteRanks>(job_, std::move(ends), inherited, std::move(events));
    if (job_.hosts_may_change()) follow_hosts(*remote, inherited);
    return remote;
  }
  return std::make_unique<LocalRanks>(job_, job_.layout.front(), rendezvous_host(), master(), std::move(ends),
                                      inherited, std::move(events));
}

std::vector<RankEnds> Attempt::make_ends(const HostRanks& here) {
  std::vector<RankEnds> ends;
  for (int rank = here.first; rank < here.first + here.count; rank++) {
    Output::Ends out = output_.add_rank(rank);
    ends.push_back({rank == 0 ? input_.rank_end() : Descriptor(), std::move(out.out), std::move(out.err)});
  }
  return ends;
}

void Attempt::follow_hosts(RemoteRanks& ranks, const Inherited& inherited) {
  const auto use = [this](const HostRanks& added) {
    std::erase(lost_, added.host);
    return make_ends(added);
  };
  hosts_.emplace(FollowedHosts::Parts{.job = job_,
                                      .supervisor = *elastic_,
                                      .ranks = ranks,
                                      .make_ends = use,
                                      .print = [this](const std::string& sentence) { output_.print(sentence); }},
                 inherited);
}

// Carries out a request, "status", "resize N" or "remove PLACE|HOST", and returns the answer.
std::string Attempt::answer(const std::string& request) {
  const auto now = Clock::now();
  const std::size_t space = std::min(request.find(' '), request.size());
  const std::string verb = request.substr(0, space), object = request.substr(std::min(space + 1, request.size()));
  if (verb == "status") return elastic_->status(now);
  std::string sentence;
  if (verb == "resize")
    sentence = elastic_->resize(int(parse_number("resize", object, 1, ElasticJob::kMaxProcesses)), now);
  if (verb == "remove") sentence = elastic_->remove(places_named(job_, object), now);
  if (sentence.empty()) throw Error(ErrorCode::invalid_argument, text("'", verb, "' is not a request"));
  output_.print(text("on request, ", sentence));
  return sentence;
}

std::string Attempt::rendezvous_host() const {
  return job_.rendezvous.empty() ? "127.0.0.1" : net::parse_host_port("--rendezvous", job_.rendezvous).host;
}

Master Attempt::master() const {
  return job_.rendezvous.empty() ? find_master(job_, "127.0.0.1") : job_.master;
}

int Attempt::run(std::uint16_t port) {
  ranks_->start(port);
  while (!finished()) {
    PollSet polls;
    watch(polls);
    polls.wait();
    act();
  }
  return supervisor_->exit_code();
}

void Attempt::watch(PollSet& polls) {
  output_.watch(polls);
  if (!supervisor_->over()) input_.watch(polls, [this] { output_.line_typed(); });
  ranks_->watch(polls);
  polls.add(launcher_.signals.fd(), POLLIN, [this](short) { take_signals(); });
  if (requests_ && !supervisor_->over()) requests_->watch(polls);
  if (hosts_ && !supervisor_->ending()) hosts_->watch(polls);
  polls.until(supervisor_->next_tick());
  if (supervisor_->over() && !output_.streams_closed()) polls.until(last_bytes_until_);
  polls.until(output_limit());
}

void Attempt::act() {
  const auto now = Clock::now();
  ranks_->tick();
  output_.tick();
  if (hosts_ && !supervisor_->ending()) hosts_->tick();
  supervisor_->tick(now);
  if (output_.reader_gone()) supervisor_->reader_gone(now);
  if (const std::string why = output_.failure(); !why.empty()) supervisor_->output_failed(why, now);
  if (!supervisor_->over()) return;
  if (supervisor_->gave_up()) ranks_->give_up();
  if (!ended_ && supervisor_->keeper_was_killed()) end_children(launcher_.inherited_children, kEmergency);
  // No process writes to the pipes any more. Reads the bytes that are still in them, until nothing has come for
  // kLastBytes.
  if (!ended_ || !output_.written() || ranks_->output_may_come()) last_bytes_until_ = now + kLastBytes;
  if (!std::exchange(ended_, true)) over_since_ = now;
  if (const auto limit = output_limit(); limit && now >= *limit) hurry();
  if (now >= last_bytes_until_ || discard_output_) output_.close_streams();
  if (output_.streams_closed() && !std::exchange(concluded_, true)) conclude();
}

void Attempt::take_signals() {
  while (const auto signal = launcher_.signals.next()) {
    if (*signal == SIGUSR1 || *signal == SIGUSR2)
      ranks_->order({Order::Kind::signal, *signal});
    else if (*signal == SIGTSTP)
      pause_all();
    else if (*signal == SIGHUP && hosts_ && !job_.host_file.empty() && !launcher_.signals.came_from_terminal() &&
             !supervisor_->ending())
      hosts_->read_again();
    else if (supervisor_->over())
      hurry();
    else
      supervisor_->signalled(*signal, Clock::now());
  }
}

// Returns when to stop waiting for a reader of the ranks' output. Only a job that was asked to end has this limit.
std::optional<Clock::time_point> Attempt::output_limit() const {
  return ended_ && supervisor_->asked_to_end() && !discard_output_
             ? std::optional(over_since_ + std::max(job_.grace, kEmergency))
             : std::nullopt;
}

// Drops the output that is not written yet. Called when no rank is left, for a signal or after output_limit().
void Attempt::hurry() {
  discard_output_ = true;
  restart_.reset();
}

// Stops the ranks and then the launcher, as Ctrl-Z does with a foreground process group. Returns when the shell
// continues the launcher.
void Attempt::pause_all() {
  ranks_->order({Order::Kind::signal, SIGSTOP});
  stop_until_continued();
  ranks_->order({Order::Kind::signal, SIGCONT});
}

// When all hosts have reported their cores, warns if there are too few.
void Attempt::learn_cores(const HostRanks& here, double cores) {
  const int begin = job_.elastic ? std::clamp(job_.elastic->first - here.first, 0, here.count) : here.count;
  if (begin > cores) {
    crowded_.push_back(here.host);
    if (crowded_.size() == 1)
      crowding_ =
          text(begin, " ranks share ", cores, cores == 1 ? " core" : " cores", job_.remote ? " on " + here.host : "");
  }
  if (++hosts_known_ < job_.layout.size() || crowded_.empty() || job_.restart > 0 || !log_enabled(Severity::warning))
    return;
  if (std::exchange(warned_of_crowding_, true)) return;  // hosts may be added later
  const std::size_t others = crowded_.size() - 1;
  output_.print(text(crowding_,
                     others > 0 ? text(" (and too few on ", others, others == 1 ? " other)" : " others)") : "",
                     ", which makes them slow"));
}

void Attempt::lose(const HostLoss& loss) {
  lost_.push_back(loss.ranks.host);
  if (hosts_) hosts_->lost(loss.ranks);
  for (int i = 0; i < loss.ranks.count; i++) rank_exited_(loss.ranks.first + i);
  supervisor_->host_lost(loss, Clock::now());
}

// Prints the last messages. Repeats the reason only if it is out of sight, because much output has followed it.
void Attempt::conclude() {
  const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - began_);
  if (supervisor_->culprit() >= 0) output_.print_last_lines(supervisor_->culprit());
  if (supervisor_->failed())
    output_.print(text("the job failed after ", rendezvous::seconds(took),
                       supervisor_->summary(failed_at_ && output_.out_of_sight(*failed_at_))));
  if (job_.verbose && supervisor_->exit_code() == 0)
    output_.print(text("the job took ", rendezvous::seconds(took), "; no rank failed"));
  if (job_.restart < job_.max_restarts && supervisor_->may_pass() && !discard_output_) plan_restart();
}

// Makes the layout again, without the hosts that were lost or are no longer listed.
void Attempt::lay_out_again(Job& next) const {
  std::erase_if(next.hosts, [this](const Host& one) { return std::ranges::find(lost_, one.name) != lost_.end(); });
  if (hosts_ && job_.host_file.empty()) next.hosts = hosts_->remaining();
  next.layout = lay_out(next.hosts, {job_.size, job_.per_host, job_.elastic.has_value()});
  next.size = next.elastic ? next.started_ranks() : job_.size;
  if (!next.elastic) return;
  if (next.size < next.elastic->min)
    throw Error(ErrorCode::configuration, text("only ", next.size, next.size == 1 ? " process" : " processes",
                                               " can be started, and --min-np is ", next.elastic->min));
  next.elastic->first = std::min(next.elastic->first, next.size);
}

void Attempt::plan_restart() try {
  Restart next{kPauseBeforeRestart.after(job_.restart + 1), job_};
  if (launcher_.limit && Clock::now() + next.pause >= *launcher_.limit)
    return output_.print("it is not started again, because the time of --timeout is almost over");
  if (!lost_.empty() || hosts_) lay_out_again(next.job);
  output_.print(text("restart ", job_.restart + 1, " of ", job_.max_restarts, " in ", rendezvous::seconds(next.pause),
                     lost_.empty() ? "" : " without " + list_hosts(lost_)));
  restart_ = std::move(next);
} catch (const Error& error) {
  output_.print(
      text("it is not started again", lost_.empty() ? "" : " without " + list_hosts(lost_), ": ", error.message()));
}

}  // namespace anello::launch
