#include "rendezvous/launch/cli/completion.hpp"

#include <algorithm>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

std::string replaced(std::string in, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = in.find(what, at)) != std::string::npos; at += with.size())
    in.replace(at, what.size(), with);
  return in;
}

bool is_choice(const OptionPage& option) {
  return option.value.find('|') != std::string::npos;
}
std::string choices(const OptionPage& option) {
  return replaced(option.value, "|", " ");
}

std::string names(const CommandPage& command, bool (*wanted)(const OptionPage&)) {
  std::string out = " ";
  for (const OptionPage& option : command.options)
    if (wanted(option))
      for (const std::string& name : option.names) out += name + " ";
  return out;
}

std::string bash_case(const CommandPage& command) {
  std::string out =
      text("    ", command.name, ")\n      options='", names(command, [](const OptionPage&) { return true; }),
           "'\n      valued='", names(command, [](const OptionPage& one) { return !one.value.empty(); }),
           "'\n      folders='", names(command, [](const OptionPage& one) { return one.value == "DIR"; }), "'\n");
  if (command.runs_program()) out += "      program=yes\n";
  for (const OptionPage& positional : command.positionals)
    if (is_choice(positional)) out += text("      choices='", choices(positional), "'\n");
  return out + "      ;;\n";
}

constexpr std::string_view kBashEnd = R"(    *) return ;;
  esac
  at=2
  while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == -* && ${COMP_WORDS[at]} != -- ]]; do
    last=${COMP_WORDS[at]}
    if [[ ${COMP_WORDS[at + 1]-} == '=' ]]; then
      ((at += 3))
    elif [[ $valued == *" $last "* ]]; then
      ((at += 2))
    else
      ((at += 1))
    fi
  done
  if ((at > COMP_CWORD)); then  # the value of an option
    [[ $folders != *" $last "* ]] || mapfile -t COMPREPLY < <(compgen -d -- "$word")
    return
  fi
  if ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == -- ]]; then
    ((at += 1))
    options=
  fi
  ((at == COMP_CWORD)) || return
  if [[ -n $options && $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [[ -n $program ]]; then
    mapfile -t COMPREPLY < <(compgen -c -- "$word")
  elif [[ -n $choices ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
  fi
}
complete -o default -F _anello anello
)";

// Escapes the explanation of an option for zsh, where it is written in brackets within single quotes.
std::string zsh_text(const std::string& in) {
  std::string out = replaced(in, "\\", "\\\\");
  for (const char* special : {"[", "]", ":"}) out = replaced(out, special, text("\\", special));
  return replaced(out, "'", "'\\''");
}

std::string zsh_action(const OptionPage& option) {
  if (option.value == "DIR") return "_files -/";
  if (option.value == "FILE") return "_files";
  return is_choice(option) ? text("(", choices(option), ")") : " ";
}

std::string zsh_option(const OptionPage& option) {
  std::string all, out;
  for (const std::string& name : option.names) all += (all.empty() ? "" : " ") + name;
  for (const std::string& name : option.names) {
    out += text("        '(", all, ")", name, "[", zsh_text(option.description), "]");
    if (!option.value.empty()) out += text(":", zsh_text(option.value), ":", zsh_action(option));
    out += "' \\\n";
  }
  return out;
}

std::string zsh_case(const CommandPage& command) {
  std::string out = text("    ", command.name, ")\n      _arguments -S \\\n");
  for (const OptionPage& option : command.options) out += zsh_option(option);
  for (const OptionPage& positional : command.positionals)
    out += command.runs_program() ? std::string("        '*:::program:_normal' \\\n")
                                  : text("        ':", positional.names[0], ":", zsh_action(positional), "' \\\n");
  return out + "        && return\n      ;;\n";
}

}  // namespace

std::string bash_completion(const std::vector<CommandPage>& commands) {
  std::string out =
      "# Completion for anello in bash. Made by `anello completion bash`.\n_anello() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} options valued folders choices= program= at last\n  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n    mapfile -t COMPREPLY < <(compgen -W '--help --version";
  for (const CommandPage& command : commands) out += " " + command.name;
  out += "' -- \"$word\")\n    return\n  fi\n  case ${COMP_WORDS[1]} in\n";
  for (const CommandPage& command : commands) out += bash_case(command);
  return out.append(kBashEnd);
}

std::string zsh_completion(const std::vector<CommandPage>& commands) {
  std::string out =
      "#compdef anello\n# Completion for anello in zsh. Made by `anello completion zsh`.\n_anello() {\n"
      "  local -a commands=(\n";
  for (const CommandPage& command : commands)
    out += text("    '", command.name, ":", zsh_text(command.description), "'\n");
  out +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const CommandPage& command : commands) out += zsh_case(command);
  return out +
         "  esac\n}\nif [[ $funcstack[1] == _anello ]]; then\n  _anello \"$@\"\nelse\n  compdef _anello anello\nfi\n";
}

}  // namespace anello::launch
