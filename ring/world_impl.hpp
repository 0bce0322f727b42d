// What a World owns, in the order in which it must go: first the data path, last the thread and its event loop.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/arguments.hpp"
#include "ring/bootstrap.hpp"
#include "ring/communicator.hpp"
#include "ring/net/background.hpp"

namespace anello {

class World::Impl {
 public:
  Impl(const Identity& identity, const Exchange& exchange, const Settings& settings);
  ~Impl();

  Communicator& communicator();  // throws Error{invalid_argument} after finish()
  void abort(std::string_view reason);
  void finish();
  const Identity& identity() const { return identity_; }
  template <class... Operations>
  Work submit(const Operations&... operations) {
    return Work(communicator().submit(operations...));
  }
  Seat seat() const { return {identity_.rank, identity_.size}; }
  const Facts& facts() const { return facts_; }
  const std::string& host(int rank) const;

 private:
  void join(const Exchange& exchange, const Settings& settings);
  void leave();

  Identity identity_;
  Facts facts_;                     // the same on all ranks
  Table table_;                     // the same on all ranks
  std::vector<std::string> hosts_;  // by rank
  bool shares_cores_ = false;       // this host has more ranks than cores for them
  Bell bell_;
  std::optional<Background> background_;  // not in a world of one, like the next three
  std::optional<Mesh> mesh_;
  std::optional<Control> control_;
  std::optional<DataLinks> links_;
  std::optional<Communicator> communicator_;
  std::atomic<bool> finished_ = false;
  bool left_ = false;
};

}  // namespace anello
