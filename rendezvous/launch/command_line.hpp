// Command lines as users write them, brought into the form that CLI11 reads: `-np` for `-n`, underscores for dashes,
// and the options cut off from the program that is to be run.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace anello::launch {

using Words = std::vector<std::string>;

// Takes what follows `--`, or else the first word that is neither an option of `app` nor its value, and all behind it
// off the end of `words`.
Words take_program(const CLI::App& app, Words& words);

// Fills in what `app` binds. Help, or one line that says what is wrong, is printed here: then the exit code is
// returned.
std::optional<int> parse(CLI::App& app, Words words);

// One line to standard error; returns the exit code for a mistake on the command line.
int misused(const CLI::App& app, const std::string& what);

}  // namespace anello::launch
