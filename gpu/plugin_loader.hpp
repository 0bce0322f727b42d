// The plugins that know CUDA, loaded when a GPU is asked for: programs are linked without them, and run where there is
// none.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/kernels/kernel_table.h"

namespace anello::gpu {

// A shared library that fills a table of C functions, whose first member is its version, a uint32_t.
struct Plugin {
  const char* file;    // its usual name
  const char* symbol;  // the function that returns the table
  std::uint32_t version;
  const char* purpose;  // "GPU memory"
  const char* remedy;
};

struct LoadedPlugin {
  std::filesystem::path path;
  const void* table;
};

// Loads the first of these files that is there, for as long as the process lives: CUDA's runtime does not survive being
// unloaded. Throws Error{unsupported} if none is, naming where it was looked for, if it cannot be loaded, or if it is
// of another version.
LoadedPlugin load(const Plugin& plugin, const std::vector<std::filesystem::path>& places);

// The plugin that knows devices.
class Library {
 public:
  explicit Library(const std::vector<std::filesystem::path>& places);  // throws as load()

  const AnelloGpuTable& table() const { return *static_cast<const AnelloGpuTable*>(loaded_.table); }
  const std::filesystem::path& path() const { return loaded_.path; }
  AnelloGpuInfo info(DeviceId id) const;  // throws Error{device}

 private:
  LoadedPlugin loaded_;
};

// That of this process: the file given, or, if that is empty, the plugin beside the program or where Anello is
// installed. Loaded once, and kept. Throws as the constructor, each time anew until it is there.
const Library& installed(const std::string& given);

// The kernels, which lie beside the plugin for devices. The first throws as load(), the second returns null.
const AnelloKernelTable& installed_kernels(const std::string& given);
const AnelloKernelTable* installed_kernels_if_any(const std::string& given);

std::string nccl_version_text(int version);  // of 22809: "2.28.9"

// What this process may use. Throws Error{unsupported} if that is nothing, with what the driver says.
int device_count(const AnelloGpuTable& table);

}  // namespace anello::gpu
