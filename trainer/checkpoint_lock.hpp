// Prevents two trainings from writing the same checkpoint: holds an exclusive flock on FILE.lock beside the checkpoint
// FILE. The kernel releases the lock when its process ends in any way. A killed process leaves the lock file, which
// does no harm. On NFS the lock works between hosts too. Used by the rank that writes; does not depend on the world.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>

namespace anello::trainer {

class CheckpointLock {
 public:
  // Throws Error{file} if another process holds the lock, and still does after `patience`; the message names that
  // process and its host. `host`: this host's name, for such messages in other processes.
  CheckpointLock(const std::filesystem::path& checkpoint, const std::string& host,
                 std::chrono::milliseconds patience = {});
  ~CheckpointLock();
  CheckpointLock(const CheckpointLock&) = delete;
  CheckpointLock& operator=(const CheckpointLock&) = delete;

  // Returns why the lock is missing, if the file system has no locks. Empty if the lock is held.
  const std::string& missing() const { return missing_; }

 private:
  bool acquire(bool last_try);
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path checkpoint_, path_;
  int descriptor_ = -1;
  std::string missing_;
};

}  // namespace anello::trainer
