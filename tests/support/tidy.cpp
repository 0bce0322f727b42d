#include "tests/support/tidy.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>

namespace anello::tidy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLines = 400;

bool is_text(const fs::path& path) {
  static const std::set<std::string> extensions = {".cpp", ".hpp", ".h",     ".c",  ".cu", ".cuh", ".def",
                                                   ".in",  ".txt", ".cmake", ".sh", ".py", ".md",  ".json"};
  return extensions.contains(path.extension().string()) || !path.has_extension();
}

File read_file(const fs::path& root, const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  File file{fs::relative(path, root).generic_string(), {}};
  for (std::string line; std::getline(in, line);) file.lines.push_back(std::move(line));
  return file;
}

Complaints matches(const std::vector<File>& tree, const std::string& pattern, const std::string& complaint,
                   const std::function<bool(const File&)>& applies) {
  const std::regex regex(pattern);
  Complaints out;
  for (const File& file : tree) {
    if (!applies(file)) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      if (std::smatch found; std::regex_search(file.lines[i], found, regex))
        out.push_back(file.path + ":" + std::to_string(i + 1) + ": " + complaint + ": " + found.str());
  }
  return out;
}

}  // namespace

std::vector<File> read_tree(const fs::path& root) {
  std::vector<File> tree;
  const auto add = [&](const fs::path& path) {
    if (is_text(path)) tree.push_back(read_file(root, path));
  };
  for (const char* room : {"ring", "gpu", "rendezvous", "trainer", "bench", "tests", "docs", ".ci"}) {
    if (!fs::exists(root / room)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / room))
      if (entry.is_regular_file()) add(entry.path());
  }
  for (const char* file : {"CMakeLists.txt", "CMakePresets.json", "README.md"})
    if (fs::exists(root / file)) add(root / file);
  std::sort(tree.begin(), tree.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return tree;
}

Complaints foreign_names(const std::vector<File>& tree) {
  const auto code_outside = [](std::initializer_list<std::string_view> rooms) {
    return [rooms = std::vector(rooms)](const File& file) {
      if (!is_product(file)) return false;
      return std::none_of(rooms.begin(), rooms.end(), [&](auto room) { return file.path.starts_with(room); });
    };
  };
  Complaints out =
      matches(tree, R"(#\s*include\s*<asio[./]|\basio::)", "Asio belongs in ring/net, control, services and rendezvous",
              code_outside({"ring/net/", "ring/control/", "ring/services/", "rendezvous/"}));
  const Complaints cuda = matches(tree, R"(#\s*include\s*<(cuda|nccl|cublas)|\b(cuda|nccl|cublas)[A-Z]\w*\s*\()",
                                  "CUDA belongs in gpu", code_outside({"gpu/"}));
  out.insert(out.end(), cuda.begin(), cuda.end());
  return out;
}

Complaints environment_reads(const std::vector<File>& tree) {
  Complaints out =
      matches(tree, R"(\b(secure_)?getenv\s*\()", "the environment is read by environment() only", is_product);
  const auto allowed = std::find_if(out.begin(), out.end(), [](const std::string& complaint) {
    return complaint.starts_with("ring/base/config.cpp:");
  });
  if (allowed == out.end())
    out.push_back("ring/base/config.cpp: environment() is not there");
  else
    out.erase(allowed);
  return out;
}

Complaints wall_clocks(const std::vector<File>& tree) {
  return matches(tree, R"(\bsystem_clock\b|\bCLOCK_REALTIME\b|\bgettimeofday\b|\bsystem_timer\b)",
                 "a clock that somebody may set measures no time",
                 [](const File& file) { return is_product(file) && file.path != "ring/base/wall_clock.hpp"; });
}

Complaints unlisted_sources(const std::vector<File>& tree) {
  static const std::regex include(R"(^\s*#\s*include\s*[<"]([^>"]+)[>"])"), word(R"x([^\s()"]+)x");
  // `headers`: all included paths. `sources`: all names in the lists, as paths from the root. A list may also have
  // names without endings, for a loop.
  std::set<std::string> headers, sources;
  const auto read_list = [&](const File& file, const std::string& line) {
    for (std::sregex_iterator it(line.begin(), line.end(), word), end; it != end; ++it)
      sources.insert((fs::path(folder_of(file.path)) / it->str()).lexically_normal().generic_string());
  };
  for (const File& file : tree) {
    if (!is_cpp(file) && name_of(file.path) != "CMakeLists.txt") continue;
    for (const std::string& line : file.lines) {
      if (std::smatch found; std::regex_search(line, found, include)) {
        headers.insert(found[1].str());
        headers.insert(folder_of(file.path) + "/" + found[1].str());
      }
      if (name_of(file.path) == "CMakeLists.txt") read_list(file, line);
    }
  }
  Complaints out;
  for (const File& file : tree) {
    const bool is_public = file.path.starts_with("ring/include/");
    if (is_header(file) && !is_public && !headers.contains(file.path))
      out.push_back(file.path + ": nobody includes it");
    if (!ends_with_any(file.path, {".cpp", ".c", ".cu"})) continue;
    const std::string stem = file.path.substr(0, file.path.rfind('.'));
    const std::string subject = stem.ends_with("_test") ? stem.substr(0, stem.size() - 5) : stem;
    if (!sources.contains(file.path) && !sources.contains(stem) && !sources.contains(subject))
      out.push_back(file.path + ": no CMakeLists.txt lists it");
  }
  return out;
}

// Two types with the same name in one program are undefined behaviour, which no linker reports: an inline function of
// one type may run on objects of the other type.
Complaints shared_names(const std::vector<File>& tree) {
  static const std::regex opening(R"(^(?:inline )?namespace ?([\w:]*) ?\{)"), closing(R"(^\}  // namespace)"),
      type(R"(^(?:class|struct|enum class|enum|union) (\w+)(?: final)?(?: ?:(?!:)[^;]*)? ?\{)");
  std::map<std::string, std::string> first;  // by full name, the file that defines it
  Complaints out;
  for (const File& file : tree) {
    if (!is_cpp(file)) continue;
    std::vector<std::string> scopes;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch found;
      if (std::regex_search(file.lines[i], found, opening)) scopes.push_back(found[1].str());
      if (std::regex_search(file.lines[i], closing) && !scopes.empty()) scopes.pop_back();
      const bool anonymous = std::find(scopes.begin(), scopes.end(), "") != scopes.end();
      if (anonymous || !std::regex_search(file.lines[i], found, type)) continue;
      std::string name;
      for (const std::string& scope : scopes) name += scope + "::";
      name += found[1].str();
      const std::string& other = first.try_emplace(name, file.path).first->second;
      if (other != file.path)
        out.push_back(file.path + ":" + std::to_string(i + 1) + ": " + name + " is also in " + other);
    }
  }
  return out;
}

// Finds words that a newcomer has to read twice, or that describe processes as persons. CONTRIBUTING.md lists them.
Complaints private_words(const std::vector<File>& tree) {
  const std::regex code_words("`[^`]*`");
  std::vector<File> prose = tree;
  for (File& file : prose)
    for (std::string& line : file.lines) line = std::regex_replace(line, code_words, "");
  return matches(
      prose,
      R"(\b([Ww]hoever|[Ss]o many|[Aa]s set|[Bb]ut for|[Ii]s none of|[Ss]omebody|[Ee]verybody|[Nn]obody|[Ss]trangers?|[Hh]eard?|[Hh]ears)\b)",
      "say it in plain words (CONTRIBUTING.md)",
      [](const File& file) { return is_product(file) || file.path.ends_with("README.md"); });
}

Complaints hard_comments(const std::vector<File>& tree) {
  return matches(
      tree,
      R"(^\s*(//|#|/?\*+|""")\s*(Of|What|The same)\b|(//|#|\*) .*\b(knows?|known|knew|tells?|told|hears?|heard)\b)",
      "hard to read", [](const File& file) { return !file.path.ends_with(".md"); });
}

Complaints leftovers(const std::vector<File>& tree) {
  // Written in two halves, so that this file does not match itself.
  return matches(tree,
                 "\\b(TO"
                 "DO|FIX"
                 "ME|XX"
                 "X)\\b",
                 "left over", [](const File&) { return true; });
}

Complaints machine_paths(const std::vector<File>& tree) {
  static const std::regex path(R"((^|[\s=(,])["'`<]?/([A-Za-z0-9_.-]+)/[A-Za-z0-9_.])");
  static const std::set<std::string> everywhere = {"bin",  "boot", "dev", "etc", "lib", "lib64", "opt",
                                                   "proc", "run",  "sys", "tmp", "usr", "var",   "nowhere"};
  Complaints out;
  for (const File& file : tree)
    for (std::size_t i = 0; i < file.lines.size(); ++i)
      if (std::smatch found; std::regex_search(file.lines[i], found, path) && !everywhere.contains(found[2].str()))
        out.push_back(file.path + ":" + std::to_string(i + 1) + ": a path of one machine: /" + found[2].str() + "/");
  return out;
}

// Finds lists of algorithms (two names of the table, one after the other), because such a list would lack a new
// algorithm.
Complaints algorithm_lists(const std::vector<File>& tree) {
  static const std::regex row(R"(^ANELLO_ALGORITHM\((\w+))");
  std::string names;
  for (const File& file : tree)
    for (const std::string& line : file.lines)
      if (std::smatch found; file.path == "ring/algorithms/algorithms.def" && std::regex_search(line, found, row))
        names += (names.empty() ? "" : "|") + found[1].str();
  if (names.empty()) return {"ring/algorithms/algorithms.def: has no algorithms"};
  const std::string name = "(?:Algorithm::(?:" + names + ")\\b|\"(?:" + names + ")\")";
  const std::regex list(name + "\\s*,\\s*" + name);
  Complaints out;
  for (const File& file : tree) {
    if (!is_cpp(file) || file.path.starts_with("ring/algorithms/")) continue;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string lines = file.lines[i] + " " + (i + 1 < file.lines.size() ? file.lines[i + 1] : "");
      std::smatch found;
      if (std::regex_search(lines, found, list) && std::size_t(found.position()) < file.lines[i].size())
        out.push_back(file.path + ":" + std::to_string(i + 1) + ": take all_algorithms(), or those that have what is " +
                      "needed, for the list " + found.str());
    }
  }
  return out;
}

Complaints long_files(const std::vector<File>& tree) {
  Complaints out;
  for (const File& file : tree) {
    const bool source = is_cpp(file) || ends_with_any(file.path, {".sh", ".cmake", "CMakeLists.txt", ".py"});
    // Bindings of other languages read the C API as one file.
    if (source && file.lines.size() > kMaxLines && file.path != "ring/include/anello/anello.h")
      out.push_back(file.path + ": " + std::to_string(file.lines.size()) + " lines, more than " +
                    std::to_string(kMaxLines));
  }
  return out;
}

}  // namespace anello::tidy
