#include "gpu/plugin_loader.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cstring>
#include <string>

#include "gpu/load_probe.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"

namespace anello::gpu {
namespace {

namespace fs = std::filesystem;

constexpr PluginInfo kDevices{
    "libanello_gpu.so", "anello_gpu_table", ANELLO_GPU_TABLE_VERSION, "GPU memory",
    "build Anello where CUDA's toolkit is (-DANELLO_CUDA=ON), and install it with the program"};

constexpr PluginInfo kKernels{"libanello_kernels.so", "anello_kernel_table", ANELLO_KERNEL_TABLE_VERSION,
                              "arithmetic on GPUs", "build Anello where nvcc and cuBLAS are (-DANELLO_CUDA=ON)"};

fs::path first_existing(const PluginInfo& plugin, const std::vector<fs::path>& places) {
  std::error_code ignored;
  const auto found =
      std::find_if(places.begin(), places.end(), [&](const auto& file) { return fs::exists(file, ignored); });
  if (found != places.end()) return *found;
  std::string list;
  for (const fs::path& place : places) list += text(list.empty() ? "" : ", ", place.lexically_normal().string());
  throw Error(ErrorCode::unsupported, text(plugin.purpose, " needs the plugin ", plugin.file,
                                           ", which was not found (looked for ", list, "); ", plugin.remedy));
}

// Returns the folder of the file that contains this code: libanello.so or the program.
fs::path folder_of_library() {
  Dl_info found{};
  const bool known = dladdr(reinterpret_cast<const void*>(&first_existing), &found) != 0 && found.dli_fname;
  return known ? fs::path(found.dli_fname).parent_path() : fs::path();
}

// Checks the plugin and the driver's library: the plugin contains CUDA's runtime, which loads the driver's library only
// later.
void check_that_loading_ends(const fs::path& plugin, std::chrono::milliseconds limit) {
  constexpr const char* kDriver = "libcuda.so.1";
  std::vector<std::string> libraries{plugin.string()};
  if (!dlopen(kDriver, RTLD_NOW | RTLD_NOLOAD)) libraries.push_back(kDriver);
  if (loading_ends(libraries, limit)) return;
  const bool by_driver = libraries.size() > 1 && !loading_ends({kDriver}, limit / 10);
  throw Error(ErrorCode::unsupported,
              text("loading ", by_driver ? kDriver : plugin.c_str(), " did not end within ",
                   double(limit.count()) / 1000, " s: the GPU's driver hangs, or the file system does; `nvidia-smi` ",
                   "shows whether the driver answers. To do without GPUs, set ANELLO_GPU_PLUGIN=none"));
}

}  // namespace

LoadedPlugin load(const PluginInfo& plugin, const std::vector<fs::path>& places, std::chrono::milliseconds limit) {
  const fs::path path = first_existing(plugin, places);
  check_that_loading_ends(path, limit);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw Error(ErrorCode::unsupported, text("the plugin cannot be loaded: ", dlerror()));
  const auto table_of = reinterpret_cast<const void* (*)()>(dlsym(handle, plugin.symbol));
  const void* const table = table_of ? table_of() : nullptr;
  std::uint32_t version = 0;
  if (table) std::memcpy(&version, table, sizeof version);
  if (table && version == plugin.version) return {path, table};
  const std::string other = table ? text("has version ", version) : "is not such a plugin";
  dlclose(handle);
  throw Error(ErrorCode::unsupported,
              text("the plugin ", path.string(), " ", other, ", but this program needs version ", plugin.version,
                   "; install both from one build"));
}

DevicePlugin::DevicePlugin(const std::vector<fs::path>& places, std::chrono::milliseconds limit)
    : loaded_(load(kDevices, places, limit)) {}

int device_count(const AnelloGpuTable& table) {
  int count = 0;
  const int status = table.device_count(&count);
  if (status != 0 || count == 0)
    throw Error(ErrorCode::unsupported,
                text("no GPU can be used: ", status == 0 ? "there is none" : table.describe(status),
                     "; `nvidia-smi` shows whether the driver sees one, CUDA_VISIBLE_DEVICES may hide it"));
  return count;
}

const DevicePlugin& installed(const std::string& given) {
  std::vector<fs::path> places = {given};
  if (given.empty()) {
    std::error_code ignored;
    const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    places = {folder_of_library() / kDevices.file, folder / kDevices.file, folder / ".." / "lib" / kDevices.file,
              folder / ".." / "gpu" / kDevices.file, fs::path(ANELLO_LIBRARY_FOLDER) / kDevices.file};
  }
  static const DevicePlugin only(places);
  return only;
}

const AnelloKernelTable& installed_kernels(const std::string& given) {
  static const LoadedPlugin only = load(kKernels, {installed(given).path().parent_path() / kKernels.file});
  return *static_cast<const AnelloKernelTable*>(only.table);
}

const AnelloKernelTable* installed_kernels_if_any(const std::string& given) {
  try {
    return &installed_kernels(given);
  } catch (const Error& error) {
    log(Severity::info, error.what());
    return nullptr;
  }
}

std::string nccl_version_text(int version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

AnelloGpuInfo DevicePlugin::info(DeviceId id) const {
  AnelloGpuInfo info{};
  check({&table(), id}, table().device_info(int(id), &info), "asking for its properties");
  return info;
}

}  // namespace anello::gpu
