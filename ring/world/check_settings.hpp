// Checks the settings of a world before it is made, so that init() and `anello doctor` refuse them with the same
// messages. Any thread.
#pragma once
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <functional>
#include <string>

namespace anello::world {

// Receives each Error. It may throw the Error, which ends the check.
using Refuse = std::function<void(const Error&)>;

// Calls `refuse` for each setting that a world cannot use. `rank`: this rank; only rank 0 reads the tuning table.
void check_settings(const Settings& settings, int rank, const Refuse& refuse);

// Returns the text of the tuning table; empty if `path` is empty. Also parses the text, so that the rank that reads the
// file reports its errors. Throws Error{configuration}.
std::string read_table(const std::string& path);

// A step of a list of checks: runs `check`. If `check` throws an Error, calls `refuse` with that Error.
template <class Check>
void attempt(const Refuse& refuse, Check check) {
  try {
    check();
  } catch (const Error& error) {
    refuse(error);
  }
}

}  // namespace anello::world
