// Keeps two trainings from writing one checkpoint: an exclusive flock on FILE.lock beside it. The kernel releases the
// lock when its process ends, in any way; the file that a killed process leaves does no harm. On NFS the lock holds
// between hosts too. Used by the rank that writes; independent of the world.
#pragma once
#include <filesystem>
#include <string>

namespace anello::trainer {

class CheckpointLock {
 public:
  // Does not block. Throws Error{file}, which names the process and the host that hold the lock. `host` is this host's
  // name, for the errors of other processes.
  CheckpointLock(const std::filesystem::path& checkpoint, const std::string& host);
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

  // Why nothing is locked: the file system has no locks. Empty if the lock is held.
  const std::string& missing() const { return missing_; }

 private:
  bool acquire();
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path checkpoint_, path_;
  int descriptor_ = -1;
  std::string missing_;
};

}  // namespace anello::trainer
