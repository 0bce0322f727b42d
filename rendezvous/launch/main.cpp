#include "rendezvous/launch/cli/commands.hpp"

int main(int argc, char** argv) {
  return anello::launch::run_program(argc, argv);
}
