// A rank that reduces until rank 0's standard input ends, checks every result, and says on standard output what became
// of it: a line "ready" once the world is there, then one that tells the outcome, the operations that went well, and
// when (steady_clock, nanoseconds):
//   done OPERATIONS NS | wrong OPERATIONS NS | told OPERATIONS NS CODE RANK MESSAGE
// anello-victim busy|small|pausing|parent|ending|departing
// A parent has started another program, which goes on when the rank is dead.
#include <poll.h>
#include <unistd.h>

#include <anello/anello.hpp>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

// What a rank does between two looks at whether it should go on.
struct Habit {
  std::size_t elems = 100;
  int operations = 50;
  std::chrono::milliseconds rest{0};
};

Habit habit_of(const std::string& name) {
  if (name == "busy") return {.elems = 1'000'000, .operations = 2};
  if (name == "pausing") return {.elems = 1000, .operations = 1, .rest = std::chrono::milliseconds(20)};
  return {};
}

unsigned long operations = 0;

bool input_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

// False if a result is wrong.
bool live(anello::World& world, const Habit& habit) {
  std::vector<float> values(habit.elems);
  const float sum = float(world.size() * (world.size() + 1)) / 2;
  for (int go_on = 1; go_on != 0;) {
    for (int k = 0; k < habit.operations; k++) {
      std::fill(values.begin(), values.end(), float(world.rank() + 1));
      world.allreduce(values);
      for (const float value : values)
        if (value != sum) return false;
      operations++;
    }
    std::this_thread::sleep_for(habit.rest);
    go_on = world.rank() != 0 || !input_ended();
    world.allreduce(std::span(&go_on, 1), anello::Op::min);
  }
  return true;
}

// All ranks leave except rank 0 and the one in the middle, which make a group. Rank 0 waits for the other for ever.
void depart(anello::World& world) {
  world.barrier();
  const int other = world.size() / 2;
  if (world.rank() != 0 && world.rank() != other) return;
  anello::Group pair = world.group({0, other});
  pair.barrier();
  std::cout << "remaining" << std::endl;
  while (world.rank() == other) std::this_thread::sleep_for(std::chrono::hours(1));
  pair.barrier();
}

void say(const std::string& outcome, const std::string& more = "") {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::cout << outcome << " " << operations << " " << std::chrono::nanoseconds(now).count() << more << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string habit = argv[1];
  std::optional<anello::World> kept;  // until the outcome is said: ending a failed world takes its time too
  try {
    anello::World& world = kept.emplace(anello::init());
    if (habit == "parent" && std::system("sleep 60 </dev/null >/dev/null 2>&1 &") != 0) return 2;
    std::cout << "ready" << std::endl;
    if (habit == "departing") return depart(world), kept.reset(), say("done"), 0;
    // A world that is made and ended is what is killed here.
    const bool right = habit == "ending" || live(world, habit_of(habit));
    if (!right) return say("wrong"), 3;
    world.finish();
    say("done");
  } catch (const anello::Error& e) {
    say("told", " " + std::string(name(e.code())) + " " + std::to_string(e.rank()) + " " + e.what());
    return 1;
  }
}
