// Runs the text scripts in tests/failure/scripts: events in a simulated world, and the results on which its ranks must
// agree. tests/failure/scripts/README.md describes the commands. One thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anello::failure {

// Runs all worlds of the script with messages delivered in an order that follows from the seed. Returns a text about
// the first line that fails, such as "line 12: expected a verdict, rank 3 has none". Returns nothing if all
// expectations hold.
std::optional<std::string> run_script(std::string_view script, std::uint64_t seed);

}  // namespace anello::failure
