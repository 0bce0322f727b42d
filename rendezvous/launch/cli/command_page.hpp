// The text of a command's `--help`, as data. Completions and manual pages are made from it. Any thread.
#pragma once
#include <exception>
#include <string>
#include <vector>

namespace anello::launch {

struct OptionPage {
  std::vector<std::string> names;  // "-n", "--np"; for a positional argument, only its name
  std::string value;               // "N", "FILE", "DIR", or choices: "bash|zsh"; empty: the option takes no value
  std::string description, default_value;
};

struct CommandPage {
  std::string name, description;  // "run"
  std::vector<OptionPage> options, positionals;
  std::string footer;

  bool runs_program() const;  // true if the command line ends with a program and its arguments
};

// If this is the only word of a command line, parse() throws Described.
inline const std::string kDescribe = "--describe-command";
struct Described : std::exception {
  explicit Described(CommandPage described) : page(std::move(described)) {}
  const char* what() const noexcept override { return "this option is not for users"; }
  CommandPage page;
};

}  // namespace anello::launch
