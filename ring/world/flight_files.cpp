#include "ring/world/flight_files.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <vector>

#include "ring/base/file.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::world {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeptJobs = 10;

// The job's name as part of a file name.
std::string in_file_names(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_'; }, '_');
  return name;
}

std::string prefix() {
  return text("anello-flight.", geteuid(), ".");
}

struct JobFiles {
  fs::file_time_type newest = fs::file_time_type::min();
  std::vector<fs::path> paths;
};

// Other processes may be writing and removing such files.
std::vector<JobFiles> files_by_job(const fs::path& folder) {
  std::map<std::string, JobFiles> jobs;
  std::error_code unreadable;
  for (fs::directory_iterator each(folder, unreadable), end; !unreadable && each != end; each.increment(unreadable)) {
    const std::string name = each->path().filename().string();
    const std::size_t job_end = name.rfind(".rank");
    if (!name.starts_with(prefix()) || !name.ends_with(".json") || job_end == std::string::npos) continue;
    std::error_code gone;
    const fs::file_time_type time = each->last_write_time(gone);
    if (gone) continue;
    JobFiles& job = jobs[name.substr(0, job_end)];
    job.newest = std::max(job.newest, time);
    job.paths.push_back(each->path());
  }
  std::vector<JobFiles> out;
  for (auto& [name, job] : jobs) out.push_back(std::move(job));
  return out;
}

void remove_old_files(const fs::path& folder) {
  std::vector<JobFiles> jobs = files_by_job(folder);
  std::ranges::sort(jobs, std::greater(), &JobFiles::newest);
  std::error_code ignored;
  for (std::size_t k = kKeptJobs; k < jobs.size(); k++)
    for (const fs::path& path : jobs[k].paths) fs::remove(path, ignored);
}

}  // namespace

void save_flight(const std::string& flight, const std::string& folder, const Identity& identity) {
  try {
    const fs::path where = folder.empty() ? fs::temp_directory_path() : fs::path(folder);
    const auto file = [&](const auto& rank) {
      return (where / text(prefix(), in_file_names(identity.job), ".rank", rank, ".json")).string();
    };
    replace_file(file(identity.rank), flight, ReadableBy::owner);
    if (identity.local_rank != 0) return;
    remove_old_files(where);
    log(Severity::warning, text("the last operations of the ranks on ", identity.host, " are in ", file("*"),
                                "; read them with: anello flight ", where.string()));
  } catch (const std::exception& e) {
    log(Severity::warning, text("the last operations are lost (ANELLO_FLIGHT_DIR): ", e.what()));
  }
}

}  // namespace anello::world
