// The plugin that knows CUDA, loaded when a GPU is asked for: programs are linked without it, and run where there is
// none.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/device.hpp"

namespace anello::gpu {

class Library {
 public:
  // Loads the first of these files that is there. Throws Error{unsupported} if none is, naming where it was looked for,
  // if it cannot be loaded, or if it is of another version.
  explicit Library(const std::vector<std::filesystem::path>& places);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const AnelloGpuTable& table() const { return *table_; }
  const std::filesystem::path& path() const { return path_; }

  AnelloGpuInfo info(DeviceId id) const;

 private:
  std::filesystem::path path_;
  void* handle_ = nullptr;
  const AnelloGpuTable* table_ = nullptr;
};

// That of this process: the file given, or, if that is empty, the plugin beside the program or where Anello is
// installed. Loaded once, and kept. Throws as the constructor, each time anew until it is there.
const Library& installed(const std::string& given);

std::string nccl_version_text(int version);  // of 22809: "2.28.9"

// What this process may use. Throws Error{unsupported} if that is nothing, with what the driver says.
int device_count(const AnelloGpuTable& table);

}  // namespace anello::gpu
