// Checks with time limits, on a machine that may have no core for a thread when the thread needs one.
#pragma once
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <mutex>

#include "tests/support/starvation.hpp"

namespace anello {

// Collects the failures of EXPECTs and ASSERTs of all threads and does not report them.
class Findings : public ::testing::ScopedFakeTestPartResultReporter {
 public:
  explicit Findings(::testing::TestPartResultArray& found)
      : ScopedFakeTestPartResultReporter(INTERCEPT_ALL_THREADS, &found) {}
  void ReportTestPartResult(const ::testing::TestPartResult& result) override {
    const std::lock_guard lock(mutex_);
    ScopedFakeTestPartResultReporter::ReportTestPartResult(result);
  }

 private:
  std::mutex mutex_;
};

inline bool has_failed(const ::testing::TestPartResultArray& found) {
  for (int k = 0; k < found.size(); k++)
    if (found.GetTestPartResult(k).failed()) return true;
  return false;
}

// Runs the check. If it fails while a thread had no core, or the machine stood still, for longer than the check
// tolerates, runs it again, up to 20 times in all. The failures of the last run are reported.
inline void undisturbed(std::chrono::milliseconds tolerated, const std::function<void()>& check) {
  constexpr int kTimes = 20;
  for (int time = 1;; time++) {
    ::testing::TestPartResultArray found;
    Starvation starvation;
    {
      const Findings findings(found);
      try {
        check();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "it threw: " << error.what();
      } catch (...) {
        ADD_FAILURE() << "it threw something";
      }
    }
    const std::chrono::milliseconds wait = starvation.longest();
    if (has_failed(found) && time < kTimes && wait > tolerated) {
      std::cout << "carried out again, because a thread had no core for " << wait.count() << " ms; it found "
                << found.GetTestPartResult(0).message() << std::endl;
      continue;
    }
    for (int k = 0; k < found.size(); k++) {
      const ::testing::TestPartResult& one = found.GetTestPartResult(k);
      GTEST_MESSAGE_AT_(one.file_name(), one.line_number(), one.message(), one.type());
    }
    return;
  }
}

}  // namespace anello
