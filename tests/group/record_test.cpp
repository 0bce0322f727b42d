// When a call enters the flight record.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <anello/testing.hpp>
#include <csignal>

#include "ring/group/group_impl.hpp"

namespace anello::group {
namespace {

// A tensor that must not be accessed: the first access checks whether the call has been recorded, and then permits it.
class Guarded {
 public:
  explicit Guarded(const trace::FlightRecorder& recorder)
      : bytes_(std::size_t(sysconf(_SC_PAGESIZE))),
        memory_(mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    recorder_ = &recorder;
    guarded_ = this;
    struct sigaction action {};
    action.sa_handler = permit;
    sigaction(SIGSEGV, &action, &before_);
  }
  ~Guarded() {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(memory_, bytes_);
  }
  Guarded(const Guarded&) = delete;

  std::span<float> values() const { return {static_cast<float*>(memory_), 16}; }
  bool was_recorded() const { return recorded_; }

 private:
  static void permit(int /*signal*/) {
    guarded_->recorded_ = recorder_->begun(0).has_value();
    mprotect(guarded_->memory_, guarded_->bytes_, PROT_READ | PROT_WRITE);
  }

  static inline Guarded* guarded_ = nullptr;
  static inline const trace::FlightRecorder* recorder_ = nullptr;
  std::size_t bytes_;
  void* memory_;
  bool recorded_ = false;
  struct sigaction before_ {};
};

// The call must be recorded first, because its multiplication may take long, and the world may fail in that time.
TEST(Record, HasACallBeforeItsInputIsMultiplied) {
  run_world(1, [](World& world) {
    const Guarded tensor(GroupAccess::recorder(world));
    world.allreduce(tensor.values(), {.prescale = 2});
    EXPECT_TRUE(tensor.was_recorded());
  });
}

}  // namespace
}  // namespace anello::group
