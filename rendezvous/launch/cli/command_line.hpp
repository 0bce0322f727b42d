// Turns command lines as users write them into the form that CLI11 reads: accepts `-np` for `--np` and underscores for
// dashes, and separates the options from the program to run.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace anello::launch {

using Words = std::vector<std::string>;

// Removes the program and its arguments from the end of `words` and returns them. The program follows `--`, or is the
// first word that is neither an option of `app` nor an option's value.
Words take_program(const CLI::App& app, Words& words);

// Sets the variables that `app` binds. Throws Described if the words ask for that. Prints help, or one line that
// describes the mistake, and then returns the exit code.
std::optional<int> parse(CLI::App& app, Words words);

// Prints one line to standard error and returns the exit code for a mistake on the command line.
int misused(const CLI::App& app, const std::string& what);

}  // namespace anello::launch
