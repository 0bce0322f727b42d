#include "trainer/checkpoint_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

namespace anello::trainer {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool is_file_at(int descriptor, const std::filesystem::path& path) {
  struct stat held {
  }, there{};
  return fstat(descriptor, &held) == 0 && stat(path.c_str(), &there) == 0 && held.st_ino == there.st_ino &&
         held.st_dev == there.st_dev;
}

}  // namespace

CheckpointLock::CheckpointLock(const std::filesystem::path& checkpoint, const std::string& host,
                               std::chrono::milliseconds patience)
    : checkpoint_(checkpoint), path_(checkpoint.string() + ".lock") {
  constexpr std::chrono::milliseconds kPause{10};
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!acquire(std::chrono::steady_clock::now() >= until)) std::this_thread::sleep_for(std::min(kPause, patience));
  if (!missing_.empty()) return;
  const std::string holder = "process " + std::to_string(getpid()) + " on " + host + "\n";
  // If the disk is full, the lock is still valid; only the name of its holder is missing.
  [[maybe_unused]] const bool named =
      ftruncate(descriptor_, 0) == 0 && write(descriptor_, holder.data(), holder.size()) > 0;
}

// Removes the file while it is still locked, because after unlocking, the file could be another training's lock.
CheckpointLock::~CheckpointLock() {
  if (missing_.empty()) unlink(path_.c_str());
  close(descriptor_);
}

// Returns false if another process holds the lock and this is not the last try, and also if the last holder removed the
// file before this process locked it. (A lock on a removed file excludes no other process.)
bool CheckpointLock::acquire(bool last_try) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse("cannot be locked: opening '" + path_.string() + "': " + std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
    if (is_file_at(descriptor_, path_)) return true;
    close(descriptor_);
    return false;
  }
  const int reason = errno;
  if (reason == ENOSYS || reason == EOPNOTSUPP || reason == ENOLCK) {
    missing_ = std::strerror(reason);
    return true;
  }
  close(descriptor_);
  if (reason == EWOULDBLOCK && !last_try) return false;
  if (reason != EWOULDBLOCK) refuse("cannot be locked: '" + path_.string() + "': " + std::strerror(reason));
  const std::string holder = first_line(path_);
  refuse("is being written by another training, " + (holder.empty() ? "a process that is just starting" : holder) +
         "; end that one or give another FILE. If both were meant to be one training, start them as one world: by "
         "anello run, or with ANELLO_SIZE and ANELLO_RENDEZVOUS");
}

void CheckpointLock::refuse(const std::string& why) const {
  throw Error(ErrorCode::file, "checkpoint '" + checkpoint_.string() + "' " + why);
}

}  // namespace anello::trainer
