// What one group's operations are and have been: the flight recorder. Written by the thread that moves the group's
// data, and for what is queued by whoever calls; read by the control plane, by whoever explains a mismatch and by those
// who write it to a file. Any thread. Memory is taken as it is used, and no more than 650 KiB.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/link/waiter.hpp"
#include "ring/trace/record.hpp"
#include "ring/trace/tally.hpp"

namespace anello {

class FlightRecorder {
 public:
  // `name` is for people: "group (0, 2)". The bell is rung when there is a verdict.
  // `members` are ranks in the world.
  FlightRecorder(std::uint64_t group, std::string name, std::vector<int> members, std::shared_ptr<Bell> bell);

  std::uint64_t group() const { return group_; }
  const std::string& name() const { return name_; }
  const std::vector<int>& members() const { return members_; }
  Bell& bell() const { return *bell_; }

  // It waits for others to end.
  void queue(const Signature& signature, std::string_view name, Ticks at);

  // False if it can never be completed, since somebody has left.
  bool begin(const Signature& signature, std::string_view name, Ticks queued);
  // The one that began last is done.
  void end(std::uint64_t bytes, std::uint64_t sent_bytes, std::uint64_t received_bytes);
  Record newest() const;  // which is done; by the thread that ended it

  // One of the last operations.
  std::optional<Signature> begun(std::uint64_t sequence) const;

  // From now on operations of that number and above can never be completed. The one that is underway, if it is such.
  std::optional<Signature> ends_at(std::uint64_t sequence);

  // The last that began, and of those that are queued the last.
  History history() const;

  Tally tally;

 private:
  static constexpr std::size_t kBegun = 4096, kQueued = 1024;
  struct Free {
    void operator()(Record* records) const;
  };
  using Records = std::unique_ptr<Record[], Free>;
  static Records allocate(std::size_t count);

  std::uint64_t group_;
  std::string name_;
  std::vector<int> members_;
  std::shared_ptr<Bell> bell_;
  std::atomic<bool> underway_ = false;
  std::atomic<std::uint64_t> ends_at_ = UINT64_MAX;
  mutable std::mutex mutex_;      // over what follows
  Records begun_, queued_;        // the last so many, by sequence
  std::uint64_t newest_ = 0;      // begun
  std::atomic<Ticks> ended_ = 0;  // the newest; goes into its record when the next one begins
};

}  // namespace anello
