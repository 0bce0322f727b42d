// A rank that reduces until rank 0's standard input ends, checks every result, and prints: a line "ready" when the
// world has formed, then one line with the outcome, the number of right operations, and the time (steady_clock,
// nanoseconds). The last form means that the rank received an error:
//   done OPERATIONS NS | wrong OPERATIONS NS | told OPERATIONS NS CODE RANK MESSAGE
// anello-victim busy|small|pausing|parent|groups|late|forking|worker|unread|ending
// anello-victim departing RANK...
//   parent: has started another program, which still runs when the rank is dead
//   groups: makes groups, sends in a ring, and drops the groups
//   late: rank 0 comes to the first of these groups 5.5 s after the others
//   forking: fork()s children that return from main() while the rank goes on
//   worker: has a child made by fork(), which lives longer than the rank
//   unread: nothing reads its standard error, which is full
//   departing: the given ranks leave at once; the others go on in their own group, in which the lowest rank's standard
//     input decides. They print "remaining" when all of them have reached that point.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <anello/anello.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

// The work of a rank between two checks of whether it should go on.
struct Habit {
  std::size_t elems = 100;
  int operations = 50;
  std::chrono::milliseconds rest{0};
  bool groups = false, forks = false;
  std::chrono::milliseconds lateness{0};  // how late rank 0 comes
};

Habit habit_of(const std::string& name) {
  if (name == "busy") return {.elems = 1'000'000, .operations = 2};
  if (name == "pausing") return {.elems = 1000, .operations = 1, .rest = std::chrono::milliseconds(20)};
  if (name == "groups") return {.operations = 5, .groups = true};
  if (name == "late") return {.operations = 5, .groups = true, .lateness = std::chrono::milliseconds(5500)};
  if (name == "forking") return {.rest = std::chrono::milliseconds(5), .forks = true};
  return {};
}

unsigned long operations = 0;
bool is_child = false;  // of a rank

bool input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

// Uses a group in another order than the world's, and the world's send and recv in a ring. False if a result is wrong.
bool use_groups(anello::World& world) {
  const int size = world.size(), next = (world.rank() + 1) % size, previous = (world.rank() + size - 1) % size;
  std::vector<int> members(std::size_t(size), 0);
  for (int rank = 0; rank < size; rank++) members[std::size_t(rank)] = size - 1 - rank;
  anello::Group reversed = world.group(members);
  int sum = reversed.rank(), received = -1;
  const int sent = world.rank();
  anello::Work allreduce = reversed.allreduce_async(std::span(&sum, 1));
  anello::Work send = world.send_async(std::span(&sent, 1), next);
  world.recv(std::span(&received, 1), previous);
  send.wait();
  allreduce.wait();
  operations += 2;
  return sum == size * (size - 1) / 2 && received == previous;
}

// Collects children of earlier calls. A child destroys its copy of the world, like a program that returns.
bool is_child_of_fork() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
  return fork() == 0;
}

// Starts a child process like a data loader's worker, when the rank already has links.
void start_worker(anello::World& world) {
  std::vector<float> values(100'000);
  world.allreduce(values);
  if (fork() != 0) return;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(standard);
  sleep(60);
  _exit(0);
}

void fill_standard_error() {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK) != 0) std::exit(2);
  const std::string block(4096, '.');
  while (write(ends[1], block.data(), block.size()) > 0) continue;
  while (write(ends[1], ".", 1) > 0) continue;
  if (fcntl(ends[1], F_SETFL, 0) != 0 || dup2(ends[1], STDERR_FILENO) < 0) std::exit(2);
}

// Waits for the time `lateness`, or until the world has failed.
void come_late(const anello::World& world, std::chrono::milliseconds lateness) {
  const auto end = std::chrono::steady_clock::now() + lateness;
  while (std::chrono::steady_clock::now() < end && !world.failure())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// False if a result is wrong.
template <class Values>
bool reduce(anello::Group& group, Values& values) {
  const float sum = float(group.size() * (group.size() + 1)) / 2;
  std::fill(values.begin(), values.end(), float(group.rank() + 1));
  group.allreduce(values);
  for (const float value : values)
    if (value != sum) return false;
  operations++;
  return true;
}

// Runs the rank's activity in a group until the standard input of the group's first rank ends. False if a result is
// wrong.
bool work(anello::World& world, anello::Group& group, const Habit& habit) {
  std::vector<float> values(habit.elems);
  std::vector<float, anello::Allocator<float>> shared(habit.elems);
  for (int go_on = 1; go_on != 0;) {
    if (habit.groups && !use_groups(world)) return false;
    if (habit.forks && is_child_of_fork()) return is_child = true;
    for (int k = 0; k < habit.operations; k++)
      if (!(k % 2 == 0 ? reduce(group, shared) : reduce(group, values))) return false;
    std::this_thread::sleep_for(habit.rest);
    go_on = group.rank() != 0 || !input_ended();
    group.allreduce(std::span(&go_on, 1), anello::Op::min);
  }
  return true;
}

bool live(anello::World& world, const Habit& habit) {
  if (world.rank() == 0) come_late(world, habit.lateness);
  return work(world, world, habit);
}

bool depart(anello::World& world, const std::vector<int>& leaving) {
  std::vector<int> remaining;
  for (int rank = 0; rank < world.size(); rank++)
    if (std::find(leaving.begin(), leaving.end(), rank) == leaving.end()) remaining.push_back(rank);
  world.barrier();
  if (std::find(remaining.begin(), remaining.end(), world.rank()) == remaining.end()) return true;
  anello::Group group = world.group(remaining);
  group.barrier();
  std::cout << "remaining" << std::endl;
  return work(world, group, {});
}

void say(const std::string& outcome, const std::string& more = "") {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::cout << outcome << " " << operations << " " << std::chrono::nanoseconds(now).count() << more << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string habit = argv[1];
  const bool departs = habit == "departing";
  const std::vector<std::string> named(argv + 2, argv + argc);
  if (departs == named.empty()) return 2;
  if (habit == "unread") fill_standard_error();
  std::optional<anello::World> kept;  // lives until the outcome is printed, since the end of a failed world takes time
  try {
    anello::World& world = kept.emplace(anello::init());
    if (habit == "parent" && std::system("sleep 60 </dev/null >/dev/null 2>&1 &") != 0) return 2;
    if (habit == "worker") start_worker(world);
    std::cout << "ready" << std::endl;
    std::vector<int> leaving;
    for (const std::string& rank : named) leaving.push_back(std::stoi(rank));
    // "ending": the rank is killed while it makes and ends worlds
    const bool right = habit == "ending" || (departs ? depart(world, leaving) : live(world, habit_of(habit)));
    if (is_child) return 0;
    if (!right) return say("wrong"), 3;
    if (departs)
      kept.reset();
    else
      world.finish();
    say("done");
  } catch (const anello::Error& e) {
    say("told", " " + std::string(name(e.code())) + " " + std::to_string(e.rank()) + " " + e.what());
    return 1;
  }
}
