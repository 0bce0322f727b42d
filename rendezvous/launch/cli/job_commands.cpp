#include "rendezvous/launch/cli/job_commands.hpp"

#include <anello/error.hpp>
#include <iostream>

#include "rendezvous/launch/job/job.hpp"
#include "rendezvous/launch/run/job_requests.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

void add_job_option(CLI::App& app, std::string& job) {
  app.add_option("--job", job, "the job's name, which `anello status` prints; needed if several run")
      ->type_name("NAME");
}

// Returns `job`, or the only running job of this user if `job` is empty.
std::string chosen(const std::string& job) {
  if (!job.empty()) return job;
  const std::vector<std::string> jobs = running_jobs();
  if (jobs.empty())
    throw Error(ErrorCode::configuration,
                "no elastic job of this user runs on this host; `anello run --min-np` starts one");
  std::string names;
  for (const std::string& one : jobs) names += " " + one;
  if (jobs.size() > 1)
    throw Error(ErrorCode::configuration, text("several jobs run here; choose one with --job:", names));
  return jobs.front();
}

int request(const std::string& job, const std::string& words) {
  std::cout << ask_job(chosen(job), words) << "\n";
  return 0;
}

}  // namespace

int status_command(const Words& words, char**) {
  CLI::App app("Lists the elastic jobs that this user has started on this host, with their processes.",
               "anello status");
  std::string job;
  app.add_option("job,--job", job, "the name of one job; without it, all")->type_name("NAME");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  const std::vector<std::string> jobs = job.empty() ? running_jobs() : std::vector{job};
  if (jobs.empty()) std::cout << "no elastic job of this user runs on this host\n";
  int exit_code = 0;
  for (const std::string& one : jobs) try {
      std::cout << ask_job(one, "status");
    } catch (const Error& error) {  // the other jobs are listed all the same
      std::cerr << "anello: " << error.what() << "\n";
      exit_code = 1;
    }
  return exit_code;
}

int resize_command(const Words& words, char**) {
  CLI::App app(
      "Changes the number of processes of an elastic job. New ones join when they are ready. If the number gets "
      "smaller, the processes with the highest places leave at the next commit.",
      "anello resize");
  std::string job, processes;
  add_job_option(app, job);
  app.add_option("processes", processes, "the new number of processes")->required()->type_name("N");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  return request(job,
                 text("resize ", parse_number("the number of processes", processes, 1, ElasticJob::kMaxProcesses)));
}

int remove_command(const Words& words, char**) {
  CLI::App app(
      "Asks a process of an elastic job, or all processes of a host, to leave at the next commit. No process is "
      "started "
      "there any more.",
      "anello remove");
  std::string job, which;
  add_job_option(app, job);
  app.add_option("which", which, "the number before the process's lines of output, or a host")
      ->required()
      ->type_name("PLACE|HOST");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  return request(job, "remove " + which);
}

}  // namespace anello::launch
