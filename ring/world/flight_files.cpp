#include "ring/world/flight_files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ring/base/file.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::world {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptJobs = 10;

// Returns the job's name as it is written in file names.
std::string in_file_names(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_'; }, '_');
  return name;
}

std::string prefix() {
  return text("anello-flight.", geteuid(), ".");
}

// Returns the job in a file's name. Empty if the name does not have the form that save_flight() gives, because users
// give other names to files that they want to keep.
std::optional<std::string> job_in(std::string_view name, std::string_view prefix) {
  constexpr std::string_view kRank = ".rank", kEnd = ".json";
  if (!name.starts_with(prefix) || !name.ends_with(kEnd)) return std::nullopt;
  name = name.substr(0, name.size() - kEnd.size());
  const std::size_t job_end = name.rfind(kRank);
  if (job_end == std::string_view::npos || job_end < prefix.size()) return std::nullopt;
  const std::string_view digits = name.substr(job_end + kRank.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) return std::nullopt;
  const std::string job(name.substr(prefix.size(), job_end - prefix.size()));
  if (job != in_file_names(job)) return std::nullopt;
  return job;
}

using Time = std::pair<time_t, long>;  // seconds and nanoseconds; a file's owner may have set any value

// Returns the file's time; empty if the file does not belong to this user. In the system's folder for temporary files,
// any user can use any name.
std::optional<Time> written_at(const fs::path& path) {
  struct stat file;
  if (lstat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid()) return std::nullopt;
  return Time(file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

struct JobFiles {
  std::optional<Time> newest;
  std::vector<fs::path> paths;
};

// Returns the files of other jobs. Other processes may write and remove such files at the same time.
std::vector<JobFiles> files_of_other_jobs(const fs::path& folder, const std::string& own) {
  const std::string start = prefix();
  std::map<std::string, JobFiles> jobs;
  std::error_code unreadable;
  for (fs::directory_iterator each(folder, unreadable), end; !unreadable && each != end; each.increment(unreadable)) {
    const auto job = job_in(each->path().filename().string(), start);
    if (!job || *job == own) continue;
    const auto time = written_at(each->path());
    if (!time) continue;
    JobFiles& files = jobs[*job];
    files.newest = std::max(files.newest, time);
    files.paths.push_back(each->path());
  }
  std::vector<JobFiles> out;
  for (auto& [name, files] : jobs) out.push_back(std::move(files));
  return out;
}

// Removes files of old jobs. Job `own` has just written its files, so it is always kept, even if the hosts' clocks
// differ.
void remove_old_files(const fs::path& folder, const std::string& own) {
  std::vector<JobFiles> jobs = files_of_other_jobs(folder, own);
  std::ranges::sort(jobs, std::greater(), &JobFiles::newest);
  std::error_code ignored;
  for (std::size_t k = kKeptJobs - 1; k < jobs.size(); k++)
    for (const fs::path& path : jobs[k].paths) fs::remove(path, ignored);
}

}  // namespace

void save_flight(const std::string& flight, const std::string& folder, const Identity& identity) {
  try {
    const fs::path where = folder.empty() ? fs::temp_directory_path() : fs::path(folder);
    const std::string job = in_file_names(identity.job);
    const auto file = [&](const auto& rank) { return (where / text(prefix(), job, ".rank", rank, ".json")).string(); };
    replace_file(file(identity.rank), flight, ReadableBy::owner);
    if (identity.local_rank != 0) return;
    log(Severity::warning, text("the last operations of the ranks on ", identity.host, " are in ", file("*"),
                                "; read them with: anello flight ", where.string()));
    remove_old_files(where, job);  // last, because in a huge folder this may take longer than the process waits
  } catch (const std::exception& e) {
    log(Severity::warning, text("the last operations are lost (ANELLO_FLIGHT_DIR): ", e.what()));
  }
}

}  // namespace anello::world
