// The text of a command's `--help`, as data: completion and manual pages are made from it. Any thread.
#pragma once
#include <exception>
#include <string>
#include <vector>

namespace anello::launch {

struct OptionPage {
  std::vector<std::string> names;  // "-n", "--np"; of a positional argument, its name only
  std::string value;               // "N", "FILE", "DIR", or choices: "bash|zsh"; empty: it takes no value
  std::string description, default_value;
};

struct CommandPage {
  std::string name, description;  // "run"
  std::vector<OptionPage> options, positionals;
  std::string footer;

  bool runs_program() const;  // whether the end of its command line is a program with arguments
};

// The word that makes parse() throw Described, if it is the only word.
inline const std::string kDescribe = "--describe-command";
struct Described : std::exception {
  explicit Described(CommandPage described) : page(std::move(described)) {}
  const char* what() const noexcept override { return "this option is not for users"; }
  CommandPage page;
};

}  // namespace anello::launch
