#include "rendezvous/launch/cli/command_line.hpp"

#include <algorithm>
#include <iostream>

#include "rendezvous/launch/cli/command_page.hpp"
#include "rendezvous/launch/cli/foreign_options.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

std::string name_in(const std::string& word) {
  return word.substr(0, word.find('='));
}

// True for a long option with one dash, such as -hostfile, which some launchers use. Here it cannot mean -h with a
// value, because -h takes no value.
bool is_long_with_one_dash(const CLI::App& app, const std::string& word) {
  if (word.size() <= 2 || word[0] != '-' || word[1] == '-') return false;
  if (app.get_option_no_throw("-" + name_in(word))) return true;
  const CLI::Option* short_option = app.get_option_no_throw(word.substr(0, 2));
  return !short_option || short_option->get_items_expected_max() == 0;
}

std::string as_registered(const CLI::App& app, std::string word) {
  if (is_long_with_one_dash(app, word)) word.insert(word.begin(), '-');
  if (word.starts_with("--")) std::replace(word.begin(), word.begin() + long(name_in(word).size()), '_', '-');
  return word;
}

// Returns how many of the words after this one are values of its option.
std::size_t words_taken(const CLI::App& app, const std::string& word) {
  const CLI::Option* option = app.get_option_no_throw(as_registered(app, word));
  if (!option || option->get_items_expected_max() <= 0) return 0;
  return std::size_t(std::max(1, option->get_items_expected_min()));
}

OptionPage page_of(const CLI::Option& option) {
  OptionPage out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  if (option.get_positional()) out.names.push_back(option.get_name(true));
  if (option.get_items_expected_max() > 0) out.value = option.get_type_name();
  out.description = option.get_description();
  out.default_value = option.get_default_str();
  return out;
}

CommandPage page_of(const CLI::App& app) {
  CommandPage out{.name = app.get_name().substr(app.get_name().find(' ') + 1),
                  .description = app.get_description(),
                  .options = {},
                  .positionals = {},
                  .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options())
    (option->get_positional() ? out.positionals : out.options).push_back(page_of(*option));
  return out;
}

}  // namespace

bool CommandPage::runs_program() const {
  return !positionals.empty() && positionals[0].names[0] == "program";
}

Words take_program(const CLI::App& app, Words& words) {
  std::size_t end = 0;
  while (end < words.size() && words[end].starts_with("-") && words[end] != "--")
    end += 1 + words_taken(app, words[end]);
  end = std::min(end, words.size());
  Words program(words.begin() + long(end), words.end());
  words.resize(end);
  if (!program.empty() && program[0] == "--") program.erase(program.begin());
  return program;
}

std::optional<int> parse(CLI::App& app, Words words) {
  if (words == Words{kDescribe}) throw Described(page_of(app));
  for (std::string& word : words) {
    word = as_registered(app, word);
    const std::string name = name_in(word);
    if (const auto ours = equivalent_of(name); !ours.empty() && !app.get_option_no_throw(name))
      return misused(app, text(name, " is not an option here; ", ours));
  }
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
