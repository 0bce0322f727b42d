#include "gpu/library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <anello/error.hpp>
#include <string>

#include "ring/base/text.hpp"

namespace anello::gpu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libanello_gpu.so";
constexpr const char* kRemedy =
    "; build Anello where CUDA's toolkit is (-DANELLO_CUDA=ON), and install the plugin with the program";

fs::path first_there(const std::vector<fs::path>& places) {
  std::error_code ignored;
  const auto found =
      std::find_if(places.begin(), places.end(), [&](const auto& file) { return fs::exists(file, ignored); });
  if (found != places.end()) return *found;
  std::string list;
  for (const fs::path& place : places) list += text(list.empty() ? "" : ", ", place.lexically_normal().string());
  throw Error(Code::unsupported,
              text("GPU tensors need the plugin ", kFile, ", which is not there (looked for ", list, ")", kRemedy));
}

}  // namespace

Library::Library(const std::vector<fs::path>& places) : path_(first_there(places)) {
  handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) throw Error(Code::unsupported, text("the GPU plugin cannot be loaded: ", dlerror()));
  const auto table_of = reinterpret_cast<decltype(&anello_gpu_table)>(dlsym(handle_, "anello_gpu_table"));
  table_ = table_of ? table_of() : nullptr;
  if (table_ && table_->version == ANELLO_GPU_TABLE_VERSION) return;
  const std::string version = table_ ? text("has version ", table_->version) : "is no such plugin";
  dlclose(handle_);
  throw Error(Code::unsupported,
              text("the GPU plugin ", path_.string(), " ", version, ", but this program needs version ",
                   ANELLO_GPU_TABLE_VERSION, "; install both from one build"));
}

// Not unloaded: CUDA's runtime does not survive it while threads of its own go on.
Library::~Library() = default;

int device_count(const AnelloGpuTable& table) {
  int count = 0;
  const int status = table.device_count(&count);
  if (status != 0 || count == 0)
    throw Error(Code::unsupported,
                text("no GPU can be used: ", status == 0 ? "there is none" : table.describe(status),
                     "; `nvidia-smi` shows whether the driver sees one, CUDA_VISIBLE_DEVICES may hide it"));
  return count;
}

const Library& installed(const std::string& given) {
  std::vector<fs::path> places = {given};
  if (given.empty()) {
    std::error_code ignored;
    const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    places = {folder / kFile, folder / ".." / "lib" / kFile, folder / ".." / "gpu" / kFile,
              fs::path(ANELLO_LIBRARY_FOLDER) / kFile};
  }
  static const Library only(places);
  return only;
}

std::string nccl_version_text(int version) {
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

AnelloGpuInfo Library::info(DeviceId id) const {
  AnelloGpuInfo info{};
  check({table_, id}, table_->device_info(int(id), &info), "asking for its properties");
  return info;
}

}  // namespace anello::gpu
