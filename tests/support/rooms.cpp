// The rules about rooms: which rooms a room may include, and whether the pages show these includes.
#include <map>
#include <regex>
#include <set>

#include "tests/support/source_file.hpp"
#include "tests/support/tidy.hpp"

namespace anello::tidy {
namespace {

// Returns the path in a quoted or angled include of this project; empty for any other line.
std::string included(const std::string& line) {
  static const std::regex regex(
      R"(^\s*#\s*include\s*[<"]((ring|gpu|rendezvous|trainer|bench|tests|anello)/[^>"]+)[>"])");
  std::smatch found;
  if (!std::regex_search(line, found, regex)) return {};
  std::string path = found[1].str();
  return path.starts_with("anello/") ? "ring/include/" + path : path;
}

// Returns the folder inside ring and inside rendezvous ("rendezvous/server", "launch/job"), and elsewhere the top
// folder, except for trainer/cuda. A public header belongs to the room that implements it.
std::string room_of(const std::string& path) {
  static const std::map<std::string, std::string> public_headers = {{"anello.h", "world"},
                                                                    {"anello.hpp", "include"},
                                                                    {"diagnosis.hpp", "world"},
                                                                    {"elastic_state.hpp", "elastic"},
                                                                    {"elastic.hpp", "elastic"},
                                                                    {"init.hpp", "world"},
                                                                    {"world.hpp", "world"},
                                                                    {"group.hpp", "group"},
                                                                    {"checkpoint.hpp", "training"},
                                                                    {"work.hpp", "group"},
                                                                    {"gradients.hpp", "gradients"},
                                                                    {"training.hpp", "training"},
                                                                    {"testing.hpp", "testing"},
                                                                    {"memory.hpp", "shm"},
                                                                    {"gpu.hpp", "gpu"},
                                                                    {"gpu_gradients.hpp", "gpu"},
                                                                    {"gpu.h", "gpu"}};
  if (path.starts_with("trainer/cuda/")) return "trainer/cuda";
  if (path.starts_with("rendezvous/launch/")) return folder_of(path.substr(sizeof("rendezvous/") - 1));
  if (path.starts_with("rendezvous/")) return folder_of(path);
  const std::string top = path.substr(0, path.find('/'));
  if (top != "ring") return top;
  if (path.starts_with("ring/include/")) {
    const auto found = public_headers.find(name_of(path));
    return found == public_headers.end() ? "base" : found->second;
  }
  const std::string rest = path.substr(5);
  const std::size_t slash = rest.find('/');
  return slash == std::string::npos ? "ring" : rest.substr(0, slash);
}

// The rooms that each room includes, besides base.
const Uses kUses = {
    {"base", {}},
    {"cmake", {}},  // what packages are made from
    {"plan", {}},
    {"algorithms", {"plan"}},
    {"link", {}},
    {"trace", {}},
    {"run", {"link", "plan", "trace"}},
    {"shm", {"link"}},
    {"failure", {}},
    {"net", {"link", "shm", "trace"}},
    {"control", {"failure", "link", "net", "trace"}},
    {"services", {"net"}},
    {"group", {"algorithms", "control", "link", "net", "plan", "run", "shm", "trace"}},
    {"agenda", {"control", "group", "link", "net", "shm"}},
    {"gradients", {"group", "run"}},
    {"world", {"algorithms", "control", "failure", "group", "net", "services", "shm", "trace"}},
    {"elastic", {"group", "world"}},
    {"testing", {"world"}},
    {"training", {"group"}},
    {"include", {"elastic", "gradients", "group", "shm", "training", "world"}},
    {"gpu", {"agenda", "gradients", "group", "link", "plan", "trace", "world"}},
    {"rendezvous/protocol", {"net"}},
    {"rendezvous/server", {"failure", "net", "rendezvous/protocol", "services", "trace"}},
    {"rendezvous/client", {"net", "rendezvous/protocol", "world"}},
    {"rendezvous/join", {"net", "rendezvous/client", "rendezvous/protocol", "rendezvous/server", "shm"}},
    {"rendezvous",
     {"algorithms", "group", "net", "rendezvous/client", "rendezvous/join", "rendezvous/protocol", "world"}},
    {"rendezvous/elastic",
     {"elastic", "net", "rendezvous", "rendezvous/client", "rendezvous/join", "rendezvous/protocol",
      "rendezvous/server", "world"}},
    {"rendezvous/c_api",
     {"agenda", "gpu", "gradients", "group", "include", "rendezvous", "rendezvous/protocol", "world"}},
    {"launch/base", {}},
    {"launch/job", {"launch/base", "net", "rendezvous/join", "rendezvous/protocol"}},
    {"launch/output", {"launch/base", "launch/job"}},
    {"launch/processes", {"launch/base", "launch/job", "net", "world"}},
    {"launch/agents", {"launch/base", "launch/job", "launch/processes", "net", "rendezvous/protocol"}},
    {"launch/run",
     {"launch/agents", "launch/base", "launch/job", "launch/output", "launch/processes", "net", "rendezvous/protocol",
      "shm"}},
    {"launch/doctor",
     {"gpu", "group", "launch/base", "launch/processes", "net", "rendezvous", "rendezvous/client", "rendezvous/join",
      "world"}},
    {"launch/flight", {"rendezvous/protocol"}},
    {"launch/cli",
     {"launch/agents", "launch/base", "launch/doctor", "launch/flight", "launch/job", "launch/output", "launch/run",
      "net", "rendezvous", "rendezvous/join", "rendezvous/protocol", "rendezvous/server"}},
    {"launch", {"launch/cli"}},
    {"trainer", {}},  // and public headers: users copy it out of the tree
    {"trainer/cuda", {"gpu", "trainer", "world"}},
    {"bench", {"agenda", "algorithms", "gpu", "include", "plan", "run", "shm", "testing", "world"}},
};

}  // namespace

Complaints wrong_direction(const std::vector<File>& tree) {
  Complaints out;
  for (const File& file : tree) {
    const std::string room = room_of(file.path);
    if (!is_product(file)) continue;
    if (!kUses.contains(room)) {
      out.push_back(file.path + ": " + room + " is not one of the rooms in tests/support/rooms.cpp");
      continue;
    }
    std::set<std::string> allowed = {room};
    if (room != "trainer") allowed.insert("base");
    allowed.insert(kUses.at(room).begin(), kUses.at(room).end());
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string path = included(file.lines[i]);
      if (path.ends_with(".def")) continue;  // a table holds data; any room may read it
      if (room == "trainer" && path.starts_with("ring/include/")) continue;
      if (!path.empty() && !allowed.contains(room_of(path)))
        out.push_back(file.path + ":" + std::to_string(i + 1) + ": " + room + " may not include " + path);
    }
  }
  return out;
}

Complaints rooms_in_circles(Uses uses) {
  const auto listed = [&](const auto& room) {  // after all rooms that it uses
    return std::none_of(room.second.begin(), room.second.end(), [&](const auto& used) { return uses.contains(used); });
  };
  while (std::erase_if(uses, listed) > 0) continue;
  Complaints out;
  for (const auto& room : uses) out.push_back(room.first + " uses itself through other rooms");
  return out;
}

// Each room of the ring and of the rendezvous that includes other rooms than base has a line on a page, such as
// "run: link, plan, trace".
Complaints wrong_picture(const std::vector<File>& tree) {
  Complaints out = rooms_in_circles(kUses);
  const std::map<std::string, std::string> pages = {{"ring/", "ring/README.md"},
                                                    {"rendezvous/", "docs/notes/starting.md"}};
  for (const auto& [top, path] : pages) {
    const auto page = std::ranges::find(tree, path, &File::path);
    if (page == tree.end()) return {path + ": is not there"};
    std::set<std::string> rooms;
    for (const File& file : tree)
      if (is_product(file) && file.path.starts_with(top)) rooms.insert(room_of(file.path));
    rooms.erase("gpu");  // its public headers lie in ring/include
    for (const auto& [room, used] : kUses) {
      std::string line;
      for (const std::string& each : used) line += (line.empty() ? room + ": " : ", ") + each;
      const bool stands_there = std::find(page->lines.begin(), page->lines.end(), line) != page->lines.end();
      if (rooms.contains(room) && !used.empty() && !stands_there)
        out.push_back(path + ": lacks the line '" + line + "'");
    }
  }
  return out;
}

Complaints loose_sources(const std::vector<File>& tree) {
  Complaints out;
  for (const File& file : tree)
    if (is_cpp(file) && folder_of(file.path) == "ring") out.push_back(file.path + ": belongs in a room of ring/");
  return out;
}

// Every room uses base, and the members of public classes (..._impl.hpp) are in the namespace of their class. A class
// of another room may be declared in a header.
Complaints wrong_namespaces(const std::vector<File>& tree) {
  static const std::regex opening(R"(^namespace (anello[\w:]*) \{)"), forward(R"(^(class|struct) \w+;)");
  Complaints out;
  for (const File& file : tree) {
    const std::string room = room_of(file.path);
    const bool of_a_room = file.path.starts_with("ring/") && file.path.ends_with(".hpp") && kUses.contains(room);
    if (!of_a_room || file.path.starts_with("ring/include/") || file.path.ends_with("_impl.hpp")) continue;
    if (room == "base" || room == "testing") continue;
    std::smatch found;
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      if (!std::regex_search(file.lines[i], found, opening)) continue;
      const bool own = (found[1].str() + "::").starts_with("anello::" + room + "::");
      const bool declares = i + 1 < file.lines.size() && std::regex_search(file.lines[i + 1], forward);
      if (!own && !declares)
        out.push_back(file.path + ":" + std::to_string(i + 1) + ": belongs in namespace anello::" + room);
    }
  }
  return out;
}

}  // namespace anello::tidy
