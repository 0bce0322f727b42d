// Changes command lines of users into the form that CLI11 reads: accepts `-np` for `--np` and underscores for dashes,
// and separates the options from the program to run.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace anello::launch {

using Words = std::vector<std::string>;

// Removes the program and its arguments from the end of `words`, and returns them. The program is the word after `--`,
// or the first word that is not an option of `app` and not the value of an option.
Words take_program(const CLI::App& app, Words& words);

// Sets the variables that `app` binds. Throws Described if `words` ask for a description of the options. If parse()
// printed help or a mistake (one line), returns the exit code.
std::optional<int> parse(CLI::App& app, Words words);

// Prints one line to standard error and returns the exit code for a mistake on the command line.
int misused(const CLI::App& app, const std::string& what);

}  // namespace anello::launch
