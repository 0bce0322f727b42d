#include "rendezvous/launch/cli/manual.hpp"

#include <algorithm>
#include <anello/version.hpp>
#include <cctype>
#include <sstream>

#include "ring/base/text.hpp"

namespace anello::launch {
namespace {

// Escapes text for roff, so that no line of it is taken for a request, and its dashes stay dashes.
std::string escaped(std::string_view in) {
  std::string out = in.starts_with('.') || in.starts_with('\'') ? "\\&" : "";
  for (const char c : in) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '|')  // a place to break a long line
      out += "|\\:";
    else
      out += c;
  }
  return out;
}
std::string bold(std::string_view in) {
  return text("\\fB", escaped(in), "\\fR");
}
std::string italic(std::string_view in) {
  return text("\\fI", escaped(in), "\\fR");
}

std::string head(const std::string& name, const std::string& summary) {
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return text(".TH ", escaped(title), " 1 \"\" \"Anello ", version(), "\" \"Anello\"\n.nh\n.ad l\n.SH NAME\n",
              escaped(name), " \\- ", escaped(summary), "\n.SH SYNOPSIS\n");
}

std::string entry(const std::string& term, const std::string& description) {
  return text(".TP\n", term, "\n", escaped(description), "\n");
}

std::string option_entry(const OptionPage& option) {
  std::string term;
  for (const std::string& name : option.names) term += (term.empty() ? "" : ", ") + bold(name);
  if (!option.value.empty()) term += " " + italic(option.value);
  return entry(term, option.default_value.empty() ? option.description
                                                  : text(option.description, " (", option.default_value, ")"));
}

// Converts the footer to roff, and keeps its paragraphs. An indented line becomes an entry of a list, whose term is the
// line's first word.
std::string notes(const std::string& footer) {
  std::string out;
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    const bool listed = line.starts_with("  ");
    std::istringstream words(line);
    std::string term, rest;
    if (listed && words >> term && std::getline(words >> std::ws, rest))
      out += entry(bold(term), rest);
    else
      out += line.empty() ? std::string(".PP\n") : escaped(line) + "\n";
  }
  while (out.ends_with(".PP\n")) out.resize(out.size() - 4);
  return out.empty() ? out : ".SH NOTES\n" + out;
}

}  // namespace

std::string manual_page(const CommandPage& command) {
  std::string summary = command.description.substr(0, command.description.find('.'));
  summary[0] = char(std::tolower(static_cast<unsigned char>(summary[0])));
  std::string out = head("anello-" + command.name, summary) + bold("anello " + command.name);
  if (!command.options.empty()) out += " [" + italic("options") + "]";
  if (command.runs_program()) out += " " + bold("--");
  for (const OptionPage& positional : command.positionals) out += " " + italic(positional.names[0]);
  if (command.runs_program()) out += " " + italic("arguments");
  out += text("\n.SH DESCRIPTION\n", escaped(command.description), "\n.SH OPTIONS\n");
  for (const OptionPage& positional : command.positionals) out += option_entry(positional);
  for (const OptionPage& option : command.options) out += option_entry(option);
  return out + notes(command.footer) + ".SH SEE ALSO\n" + bold("anello") + "(1)\n";
}

std::string manual_overview(const std::vector<CommandPage>& commands) {
  std::string out = head("anello", "starts and connects the ranks of a job") + bold("anello") + " " +
                    italic("command") + " [" + italic("options") + "]\n.SH COMMANDS\n",
              others;
  for (const CommandPage& command : commands) {
    out += entry(bold(command.name), command.description);
    others += text(others.empty() ? "" : ",\n", bold("anello-" + command.name), "(1)");
  }
  return out + ".SH SEE ALSO\n" + others + "\n";
}

}  // namespace anello::launch
