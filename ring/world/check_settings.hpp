// Checks the settings of a world before it is made, so that all of them are refused in the same words, by init() and by
// `anello doctor`. Any thread.
#pragma once
#include <anello/error.hpp>
#include <anello/settings.hpp>
#include <functional>
#include <string>

namespace anello::world {

// Receives each Error; may throw it, which ends the check.
using Refuse = std::function<void(const Error&)>;

// Calls `refuse` for each setting that a world cannot use. `rank` is this rank: the tuning table is read by rank 0
// only.
void check_settings(const Settings& settings, int rank, const Refuse& refuse);

// The tuning table's text; empty if `path` is. Throws Error{configuration}. Parsed here too, so that the rank that read
// the file reports its errors.
std::string read_table(const std::string& path);

// For a list of checks: calls `check`, and `refuse` with the Error that it throws.
template <class Check>
void attempt(const Refuse& refuse, Check check) {
  try {
    check();
  } catch (const Error& error) {
    refuse(error);
  }
}

}  // namespace anello::world
