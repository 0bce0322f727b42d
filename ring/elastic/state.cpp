#include <algorithm>

#include "ring/base/text.hpp"
#include "ring/elastic/contents.hpp"
#include "ring/group/checks.hpp"

namespace anello::elastic {

void Contents::restore() {
  if (holds) group::refuse("State::restored", "the state has been synchronized; later changes are commits");
  clean = true;
}

State::State() : contents_(std::make_unique<Contents>()) {}
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;
State::~State() = default;

void Contents::add(Entry entry) {
  const auto wrong = [&](std::string_view why) {
    group::refuse("State::add", text("'", printable(entry.name), "' ", why));
  };
  if (entry.name.empty() || entry.name != printable(entry.name, entry.name.size())) wrong("is not a name of one line");
  if (std::ranges::find(entries, entry.name, &Entry::name) != entries.end()) wrong("was added before");
  if (!entry.memory.data() && !entry.memory.empty())
    wrong(text("is a null pointer with ", entry.memory.size(), " bytes"));
  entries.push_back(std::move(entry));
}

void Contents::begin_commit() {
  if (!holds)
    group::refuse("State::commit", "the state has not been synchronized; the first world of an elastic job does that");
  if (!clean)
    group::refuse("State::commit",
                  text("a commit after revision ", revision,
                       " is running or has failed; only a synchronization makes the state complete again"));
  clean = false;
  commits = true;
}

void Contents::end_commit() {
  if (!commits) group::refuse("State::commit", "no commit has begun, or a new world has ended it");
  keep();
  commits = false;
  revision++;
  clean = true;
}

void Contents::keep() {
  for (Entry& each : entries)
    if (each.own) each.kept.assign(each.memory.begin(), each.memory.end());
}

void Contents::set_back() {
  for (const Entry& each : entries)
    if (each.own) std::ranges::copy(each.kept, each.memory.begin());
}

void State::add(std::string name, std::span<std::byte> replicated) {
  contents_->add({.name = std::move(name), .memory = replicated});
}

void State::add_own(std::string name, std::span<std::byte> own) {
  contents_->add({.name = std::move(name), .memory = own, .own = true});
}

void State::add_small(std::string name, std::function<std::string()> save, std::function<void(std::string_view)> load) {
  if (!save || !load) group::refuse("State::add_small", text("'", printable(name), "' needs both save and load"));
  contents_->add({.name = std::move(name), .save = std::move(save), .load = std::move(load)});
}

void State::restored() {
  contents_->restore();
}
std::uint64_t State::revision() const {
  return contents_->revision;
}
bool State::holds() const {
  return contents_->holds;
}
bool State::clean() const {
  return contents_->clean;
}
void State::commit(const std::function<void()>& update) {
  contents_->begin_commit();
  update();
  contents_->end_commit();
}

}  // namespace anello::elastic
