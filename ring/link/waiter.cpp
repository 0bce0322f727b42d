#include "ring/link/waiter.hpp"

#include <sys/eventfd.h>
#include <unistd.h>
#include <anello/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "ring/base/descriptor.hpp"

namespace anello::link {
namespace {

constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::microseconds kShortSpin{20};  // covers one message if both ranks are running
constexpr int kRoundsPerLook = 16;
constexpr std::chrono::microseconds kIdleYield{3};  // a yield that takes longer has let another process run

}  // namespace

Bell::Bell() : descriptor_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) throw system_error("eventfd", ErrorCode::network);
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

// Another thread may want the core that should be this rank's own, and even the awaited rank may wait for this core. A
// long yield shows that such a thread has run, and spinning would only delay it. A yield that returns at once shows
// that there is no such thread. After a yield of a whole time slice, this thread sleeps: the kernel soon runs a thread
// that wakes up, but a thread that yields must wait for its turn.
//
// When the yields of this wait are used up, the thread spins for a short time, because a thread that sleeps for each
// message may run late each time. With 8 threads that compute on each rank's core, a step of 4 named operations took 28
// ms without spinning, and 0.03 ms with 20 us of spinning. With two ranks on one core, the step took 1.3 ms with 200 us
// of spinning, and 0.2 ms with 20 us.
bool Waiter::pause() {
  if (!spun_ && spin_on()) return false;
  if (yields_ >= policy_.yields || !budget_.allows_a_yield()) return true;
  if (yields_++ == 0) core_is_wanted_ = false;
  last_yield_ = budget_.yield();
  if (last_yield_ > kIdleYield) core_is_wanted_ = true;
  if (budget_.is_long(last_yield_)) yields_ = policy_.yields;
  return false;
}

// Reads the clock only once in kRoundsPerLook rounds, because reading it costs as much as a round.
bool Waiter::spin_on() {
  if (core_is_wanted_ && budget_.allows_a_yield()) return false;
  if (policy_.spin.count() > 0 && (spins_ > 0 || !spin_record_.skips())) {
    if (++spins_ % kRoundsPerLook != 0) return true;
    const Core::Time now = core_.now();
    if (spins_ == kRoundsPerLook) began_ = now;
    const bool is_short = !budget_.allows_a_yield();
    if (now - began_ < (is_short ? std::min(policy_.spin, kShortSpin) : policy_.spin)) return true;
    if (is_short) spin_record_.in_vain();
  }
  spun_ = true;
  return false;
}

bool Waiter::sleep(std::chrono::milliseconds limit) {
  for (const Bell* const bell : bells_) want(bell->descriptor(), POLLIN);
  want(bell_.descriptor(), POLLIN);
  const bool woken = poll(polled_.data(), polled_.size(), int(limit.count())) > 0;
  if (polled_.back().revents) bell_.hush();
  const auto of_bells = polled_.end() - 1 - std::ptrdiff_t(bells_.size());
  for (std::size_t k = 0; k < bells_.size(); k++)
    if (of_bells[std::ptrdiff_t(k)].revents) bells_[k]->hush();
  forget();
  begin_wait();
  return woken;
}

}  // namespace anello::link
