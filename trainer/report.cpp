#include "trainer/report.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <anello/error.hpp>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trainer/hash.hpp"

namespace anello::trainer {
namespace {

using Json = nlohmann::ordered_json;
using std::to_string;

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return std::move(out).str();
}
std::string counted(std::size_t count, const std::string& noun) {
  return to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

// Returns the seconds since the host has started. This time is the same for all processes of the host, several of which
// may write the log one after another.
double now() {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return std::round(1e3 * now.count()) / 1e3;
}

}  // namespace

int terminal_columns(const Settings& settings) {
  winsize size{};
  if (settings.tty > 0) return settings.tty;
  return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

Report::Report(World& world, const TrainOptions& options, std::ostream& out, int columns, bool continues)
    : world_(world), options_(options), out_(out), columns_(columns) {
  if (world_.rank() != 0 || options_.log.empty()) return;
  log_.open(options_.log, continues || options_.resume != "no" ? std::ios::app : std::ios::trunc);
  if (!log_) refuse_log();
}

// Begins a line that overwrites the progress bar, if there is one.
std::ostream& Report::begin_line() {
  return out_ << (columns_ > 0 ? "\r\x1b[K" : "");
}

void Report::start(const std::string& device, const Dataset& data, std::size_t parameters, const LearningRate& rate) {
  if (world_.rank() != 0) return;
  std::string layers = to_string(data.image_size());
  for (const std::size_t width : options_.hidden) layers += '-' + to_string(width);
  begin_line() << "training on " << counted(std::size_t(world_.size()), "rank") << ", "
               << counted(std::size_t(world_.node_count()), "host") << ", device " << device
               << (options_.device == "auto" ? " (chosen by --device auto)" : "") << std::endl;
  begin_line() << "  data           " << data.name << ", " << data.train.size() << " images of " << data.rows << 'x'
               << data.columns << " to train on, " << data.test.size() << " to test on" << std::endl;
  begin_line() << "  model          " << layers << '-' << data.classes << ", " << parameters
               << " parameters; gradients travel as "
               << (options_.compression == "none" ? "fp32" : options_.compression) << std::endl;
  begin_line() << "  learning rate  " << rate.base << " x " << rate.global_batch << '/' << kReferenceBatch << " = "
               << rate.scaled() << " (global batch over reference batch), reached in "
               << counted(options_.warmup_epochs, "epoch") << "; " << options_.optimizer << std::endl;
}

void Report::resumed(const Restored& restored, const std::string& lock_missing) {
  if (world_.rank() != 0) return;
  const std::string file = "'" + options_.checkpoint + "'";
  if (!lock_missing.empty())
    begin_line() << "checkpoint " << file << " cannot be locked (" << lock_missing
                 << "): make sure that no other training writes it" << std::endl;
  if (options_.resume == "no") return;
  if (!restored.found) {
    begin_line() << "there is no checkpoint " << file << " yet: training from the beginning" << std::endl;
    return;
  }
  const auto& [epoch, step, trained] = restored.progress;
  begin_line() << "continuing after epoch " << epoch << (step > 0 ? " and " + counted(step, "step") : "") << " from "
               << file << std::endl;
  for (const std::string& change : restored.changed) begin_line() << "  " << change << std::endl;
  if (options_.feedback && restored.ranks_with_residuals > 0 && restored.ranks_with_residuals != world_.size())
    begin_line() << "  what --feedback kept on " << counted(std::size_t(restored.ranks_with_residuals), "rank")
                 << " is now on " << world_.size() << "; its sum is the same" << std::endl;
}

void Report::world(const elastic::Change& change, const Progress& done) {
  if (world_.rank() != 0) return;
  const Json entry = {{"event", "world"},
                      {"time", now()},
                      {"world", change.generation},
                      {"ranks", change.size},
                      {"commits", change.revision},
                      {"epochs", done.epoch},
                      {"steps", done.step},
                      {"received_bytes", change.bytes},
                      {"paused_ms", std::chrono::duration<double, std::milli>(change.paused).count()},
                      {"reason", change.reason}};
  write(entry.dump());
}

void Report::stopped(const Progress& done, std::size_t steps) {
  if (world_.rank() != 0) return;
  begin_line() << "stopped by SIGTERM in epoch " << done.epoch + 1 << " after " << done.step << " of "
               << counted(steps, "step") << "; '" << options_.checkpoint
               << "' has the state: continue with the same command and --resume auto" << std::endl;
}

void Report::step(std::size_t epoch, std::size_t step, std::size_t steps) {
  using namespace std::chrono_literals;
  if (world_.rank() != 0 || columns_ <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_drawn_ < 100ms) return;
  last_drawn_ = now;
  const std::string before = "epoch " + to_string(epoch) + '/' + to_string(options_.epochs) + " [",
                    after = "] " + to_string(100 * step / steps) + " %";
  const std::size_t taken = before.size() + after.size() + 1, width = std::size_t(columns_);
  if (taken >= width) return;
  const std::size_t room = std::min<std::size_t>(width - taken, 50), filled = room * step / steps;
  out_ << '\r' << before << std::string(filled, '=') << std::string(room - filled, ' ') << after << "\x1b[K"
       << std::flush;
}

void Report::epoch(const EpochResult& result) {
  if (world_.rank() != 0) return;
  const auto& [epoch, steps, train, test, learning_rate] = result;
  const double ranks = train.steps / double(steps);  // the mean, if it has changed
  const double rate = train.samples / (train.seconds / ranks);
  const double exposed = 1e3 * train.exposed_seconds / train.steps, hidden = 1e3 * train.hidden_seconds / train.steps;
  begin_line() << "epoch " << std::setw(int(to_string(options_.epochs).size())) << epoch << '/' << options_.epochs
               << "  loss " << fixed(train.loss(), 4) << "  test loss " << fixed(test.loss(), 4) << "  accuracy "
               << fixed(100 * test.accuracy(), 2) << " %  " << fixed(rate, 0) << " samples/s  communication "
               << fixed(100 * train.exposed_share(), 0) << " %, a step " << fixed(exposed, 2) << " ms exposed, "
               << fixed(hidden, 2) << " ms hidden" << std::endl;
  const Json entry = {{"event", "epoch"},
                      {"time", now()},
                      {"epoch", epoch},
                      {"train_loss", train.loss()},
                      {"test_loss", test.loss()},
                      {"test_accuracy", test.accuracy()},
                      {"samples_per_second", rate},
                      {"communication_share", train.exposed_share()},
                      {"exposed_ms_per_step", exposed},
                      {"hidden_ms_per_step", hidden},
                      {"learning_rate", learning_rate},
                      {"samples_hash", hex(train.samples_hash)}};
  write(entry.dump());
}

void Report::write(const std::string& entry) {
  if (log_.is_open() && !(log_ << entry << std::endl)) refuse_log();
  if (!out_) throw Error(ErrorCode::file, "standard output cannot be written: its disk may be full");
}

void Report::refuse_log() const {
  throw Error(ErrorCode::file, "log '" + options_.log + "' cannot be written: " + std::strerror(errno));
}

void Report::end(const Metrics& test, std::uint64_t parameter_hash) {
  if (world_.rank() != 0) return;
  begin_line() << "done: test accuracy " << fixed(100 * test.accuracy(), 2) << " %, parameters " << hex(parameter_hash)
               << " on " << (world_.size() == 1 ? "the only rank" : "all " + to_string(world_.size()) + " ranks")
               << std::endl;
  const Json entry = {{"event", "end"},
                      {"test_accuracy", test.accuracy()},
                      {"parameter_hash", hex(parameter_hash)},
                      {"world", world_.size()}};
  write(entry.dump());
}

}  // namespace anello::trainer
