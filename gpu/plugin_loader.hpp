// Loads the plugins that use CUDA when a program first needs a GPU. Programs are linked without the plugins, so they
// also run on machines that have no plugins. Any thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu/device.hpp"
#include "gpu/kernels/kernel_table.h"

namespace anello::gpu {

// Describes a plugin: a shared library with a function that returns a table of C functions. The first member of the
// table is its version, a uint32_t.
struct PluginInfo {
  const char* file;    // the usual name of the plugin's file
  const char* symbol;  // the function that returns the table
  std::uint32_t version;
  const char* purpose;  // for error messages: the purpose of the plugin, such as "GPU memory"
  const char* remedy;
};

struct LoadedPlugin {
  std::filesystem::path path;
  const void* table;
};

// Loads the first of these files that exists. The file stays loaded until the process ends, because CUDA's runtime
// cannot be unloaded. Throws Error{unsupported} in these cases: no file exists (the error lists them); the file cannot
// be loaded; loading it or the driver's library does not end within `limit`; the plugin has another version.
inline constexpr std::chrono::milliseconds kLoadLimit{30000};
LoadedPlugin load(const PluginInfo& plugin, const std::vector<std::filesystem::path>& places,
                  std::chrono::milliseconds limit = kLoadLimit);

// The plugin for devices, streams, events and memory.
class DevicePlugin {
 public:
  explicit DevicePlugin(const std::vector<std::filesystem::path>& places,
                        std::chrono::milliseconds limit = kLoadLimit);  // throws like load()

  const AnelloGpuTable& table() const { return *static_cast<const AnelloGpuTable*>(loaded_.table); }
  const std::filesystem::path& path() const { return loaded_.path; }
  AnelloGpuInfo info(DeviceId id) const;  // throws Error{device}

 private:
  LoadedPlugin loaded_;
};

// Returns this process's plugin: the file `given`, or, if `given` is empty, the file beside libanello.so or the
// program, or in the folder where Anello is installed. The first call that succeeds loads the plugin, and later calls
// return the same plugin. Throws like the constructor.
const DevicePlugin& installed(const std::string& given);

// These functions return the plugin for arithmetic, from the same folder as the plugin for devices. If this plugin
// cannot be loaded, installed_kernels() throws like load(), and installed_kernels_if_any() logs the reason and returns
// null.
const AnelloKernelTable& installed_kernels(const std::string& given);
const AnelloKernelTable* installed_kernels_if_any(const std::string& given);

std::string nccl_version_text(int version);  // "2.28.9" for 22809

// Returns the number of GPUs that this process can use. Throws Error{unsupported} with the driver's message if there is
// none.
int device_count(const AnelloGpuTable& table);

}  // namespace anello::gpu
