#include "rendezvous/launch/cli/page_commands.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "rendezvous/launch/cli/completion.hpp"
#include "rendezvous/launch/cli/manual.hpp"
#include "ring/base/descriptor.hpp"
#include "ring/base/text.hpp"

namespace anello::launch {

int completion_command(const Words& words, Pages pages) {
  CLI::App app("Prints a script that completes command lines of `anello`: source <(anello completion bash)",
               "anello completion");
  std::string shell;
  app.add_option("shell", shell, "the shell")->required()->type_name("bash|zsh");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  if (shell != "bash" && shell != "zsh") return misused(app, text("the shell must be bash or zsh, not '", shell, "'"));
  std::cout << (shell == "bash" ? bash_completion(pages()) : zsh_completion(pages()));
  return 0;
}

int manual_command(const Words& words, Pages pages) {
  CLI::App app("Prints the manual page of a command, or an overview. To read it: anello manual run | man -l -",
               "anello manual");
  std::string name;
  app.add_option("command", name, "the command; without it, an overview")->type_name("NAME");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  const std::vector<CommandPage> all = pages();
  const auto page = std::ranges::find(all, name, &CommandPage::name);
  if (!name.empty() && page == all.end()) return misused(app, text("'", name, "' is not a command"));
  std::cout << (name.empty() ? manual_overview(all) : manual_page(*page));
  return 0;
}

int pages_command(const Words& words, Pages pages) {
  CLI::App app("Writes all manual pages and completion scripts into DIR, as they are in a share/ folder.",
               "anello pages");
  std::string folder;
  app.add_option("folder", folder, "the folder")->required()->type_name("DIR");
  if (const auto exit_code = parse(app, words)) return *exit_code;
  const auto write = [&](const std::string& name, const std::string& content) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(path.parent_path());
    if (!(std::ofstream(path) << content << std::flush))
      throw system_error("writing " + path.string(), ErrorCode::file);
  };
  const std::vector<CommandPage> all = pages();
  write("bash-completion/completions/anello", bash_completion(all));
  write("zsh/site-functions/_anello", zsh_completion(all));
  write("man/man1/anello.1", manual_overview(all));
  for (const CommandPage& page : all) write("man/man1/anello-" + page.name + ".1", manual_page(page));
  return 0;
}

}  // namespace anello::launch
