// The project's rules that a compiler does not check, as functions from a source tree to complaints
// ("ring/plan/x.cpp:3: ..."). The functions only read files and use no test framework, so tests can try the rules on
// bad trees.
#pragma once
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace anello::tidy {

struct File {
  std::string path;  // from the root, with '/'
  std::vector<std::string> lines;
};
using Complaints = std::vector<std::string>;
using Uses = std::map<std::string, std::set<std::string>>;  // by room, the rooms that it uses

// Every text file (by its name) of the project below `root`: the rooms, .ci, and the files at the top. Sorted by path.
std::vector<File> read_tree(const std::filesystem::path& root);

Complaints foreign_names(const std::vector<File>& tree);    // Asio and CUDA outside their rooms
Complaints wrong_direction(const std::vector<File>& tree);  // includes of other rooms than a room uses
Complaints wrong_picture(const std::vector<File>& tree);    // errors of ring/README.md's picture; circles of rooms
Complaints rooms_in_circles(Uses uses);
Complaints loose_sources(const std::vector<File>& tree);      // sources at the top of ring/
Complaints wrong_namespaces(const std::vector<File>& tree);   // headers of a room outside the room's namespace
Complaints environment_reads(const std::vector<File>& tree);  // reads outside of ring/base/config.cpp
Complaints wall_clocks(const std::vector<File>& tree);        // reads, except for the flight recorder's date
Complaints unlisted_sources(const std::vector<File>& tree);   // sources that no list has; headers without an include
Complaints shared_names(const std::vector<File>& tree);       // types with the same full name in two files
Complaints private_words(const std::vector<File>& tree);      // words that are not plain, in the product and the pages
Complaints hard_comments(const std::vector<File>& tree);      // comments without a subject, or with code as a person
Complaints leftovers(const std::vector<File>& tree);          // notes to oneself
Complaints machine_paths(const std::vector<File>& tree);      // absolute paths that exist on one machine only
Complaints algorithm_lists(const std::vector<File>& tree);    // lists outside of ring/algorithms
Complaints long_files(const std::vector<File>& tree);

}  // namespace anello::tidy
