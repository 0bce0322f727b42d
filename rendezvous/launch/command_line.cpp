#include "rendezvous/launch/command_line.hpp"

#include <algorithm>
#include <iostream>

namespace anello::launch {
namespace {

std::string as_registered(std::string word) {
  if (word == "-np") return "--np";
  if (word.starts_with("--"))
    std::replace(word.begin(), word.begin() + long(std::min(word.find('='), word.size())), '_', '-');
  return word;
}

bool takes_next_word(const CLI::App& app, const std::string& word) {
  const CLI::Option* option = app.get_option_no_throw(as_registered(word));
  return option && option->get_items_expected_max() > 0;
}

}  // namespace

Words take_program(const CLI::App& app, Words& words) {
  std::size_t end = 0;
  while (end < words.size() && words[end].starts_with("-") && words[end] != "--")
    end += takes_next_word(app, words[end]) ? 2 : 1;
  end = std::min(end, words.size());
  Words program(words.begin() + long(end), words.end());
  words.resize(end);
  if (!program.empty() && program[0] == "--") program.erase(program.begin());
  return program;
}

std::optional<int> parse(CLI::App& app, Words words) {
  std::ranges::transform(words, words.begin(), as_registered);
  std::ranges::reverse(words);  // CLI11 expects the last word first
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& asked_for) {
    return app.exit(asked_for);
  } catch (const CLI::ParseError& error) {
    return misused(app, error.what());
  }
  return std::nullopt;
}

int misused(const CLI::App& app, const std::string& what) {
  std::cerr << app.get_name() << ": " << what << "; see `" << app.get_name() << " --help`\n";
  return 2;
}

}  // namespace anello::launch
