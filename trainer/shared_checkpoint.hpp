// The checkpoint of a training on many ranks. Only rank 0 reads and writes the file, under a lock. The other ranks send
// their residuals to rank 0, and get them back from rank 0. Used by one thread of each rank.
#pragma once
#include <anello/world.hpp>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint.hpp"
#include "trainer/checkpoint_lock.hpp"
#include "trainer/data_parallel.hpp"

namespace anello::trainer {

// The result of a restore on rank 0. On other ranks only `progress` is set, and its metrics are empty.
struct Restored {
  bool found = false;
  Progress progress;
  int ranks_with_residuals = 0;      // ranks of the run that wrote the residuals; 0: without --feedback
  std::vector<std::string> changed;  // "--clip was 1, is now 0.5"
};

// The lock on the checkpoint. It outlives a world, because in an elastic job rank 0 of the next world may be the same
// process or another one.
struct HeldLock {
  std::optional<CheckpointLock> lock;     // set only on rank 0
  std::chrono::milliseconds patience{0};  // how long rank 0 waits for the process that was rank 0 before
};

class SharedCheckpoint {
 public:
  // Rank 0 takes the lock if it does not hold it, and other ranks release it. Without --checkpoint nothing is read,
  // written or sent. All arguments must outlive this object. Throws Error{file} on rank 0 if the file cannot be
  // written, or if another process still holds the lock after `held.patience`.
  SharedCheckpoint(World& world, const TrainOptions& options, Backend& backend, std::span<const std::span<float>> state,
                   DataParallel& optimizer, HeldLock& held);

  // Collective. If --resume asks for a restore, fills rank 0's state (the other ranks do not receive the state here)
  // and the residuals of all ranks. If there must be a checkpoint and there is none, throws Error{file} on rank 0.
  Restored restore();
  // Does the same as restore(), but only on rank 0 and without residuals. Not collective: other ranks do not call it.
  Restored restore_alone();
  // Collective; returns on rank 0 when the file is on the disk.
  void save(const Progress& progress);

  // Returns why the file is not locked. Empty if it is locked, and on all ranks except rank 0.
  std::string lock_missing() const { return held_.lock ? held_.lock->missing() : ""; }

 private:
  Restored read(Residuals& residuals);

  World& world_;
  const TrainOptions& options_;
  Backend& backend_;
  std::span<const std::span<float>> state_;
  DataParallel& optimizer_;
  const RunFacts facts_;
  HeldLock& held_;
};

}  // namespace anello::trainer
