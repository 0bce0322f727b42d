#include "ring/link/waiter.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <anello/error.hpp>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "ring/base/text.hpp"

namespace anello::link {
namespace {

constexpr std::chrono::microseconds kSpin{200};
constexpr int kRoundsPerLook = 16;
constexpr std::chrono::microseconds kIdleYield{3};  // a longer yield has let another process run

std::chrono::nanoseconds yield() {
  const auto began = std::chrono::steady_clock::now();
  sched_yield();
  return std::chrono::steady_clock::now() - began;
}

}  // namespace

Bell::Bell() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0)
    throw Error(ErrorCode::network,
                text("eventfd: ", std::system_category().message(errno), "; is `ulimit -n` reached?"));
}

void Bell::hush() noexcept {
  std::uint64_t rings = 0;
  [[maybe_unused]] const auto got = read(descriptor_, &rings, sizeof rings);
}

WaitPolicy WaitPolicy::of(int spin_us, int yields, bool shares_cores) {
  WaitPolicy policy;
  if (!shares_cores) policy.spin = kSpin;
  if (spin_us >= 0) policy.spin = std::chrono::microseconds(spin_us);
  if (yields >= 0) policy.yields = yields;
  return policy;
}

// Another process may want the core that should be this rank's own, and the rank that is waited for may even be queued
// behind it. A yield that takes long has let such a process run, and spinning would only keep it waiting; a yield that
// returns at once has found none.
bool Waiter::pause() {
  if (!spun_ && !core_is_wanted_ && spin_on()) return false;
  if (yields_ == policy_.yields) return true;
  if (yields_++ == 0) core_is_wanted_ = false;
  if (yield() > kIdleYield) core_is_wanted_ = true;
  return false;
}

// Reading the clock costs as much as a round, so only one round in kRoundsPerLook does it.
bool Waiter::spin_on() {
  if (policy_.spin.count() > 0) {
    if (++spins_ % kRoundsPerLook != 0) return true;
    const auto now = std::chrono::steady_clock::now();
    if (spins_ == kRoundsPerLook) began_ = now;
    if (now - began_ < policy_.spin) return true;
  }
  spun_ = true;
  return false;
}

bool Waiter::sleep(std::chrono::milliseconds limit) {
  bells_.push_back(&bell_);
  for (const Bell* const bell : bells_) want(bell->descriptor(), POLLIN);
  const bool woken = poll(polled_.data(), polled_.size(), int(limit.count())) > 0;
  const auto of_bells = polled_.end() - std::ptrdiff_t(bells_.size());
  for (std::size_t k = 0; k < bells_.size(); k++)
    if (of_bells[std::ptrdiff_t(k)].revents) bells_[k]->hush();
  forget();
  moved();
  return woken;
}

}  // namespace anello::link
