#include "rendezvous/join/munge.hpp"

#include <unistd.h>

#include <algorithm>
#include <anello/error.hpp>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "rendezvous/join/shared_library.hpp"
#include "ring/base/config.hpp"
#include "ring/base/text.hpp"

namespace anello::rendezvous {
namespace {

// The functions of munge.h (version 2 of the library) that are used here. The header need not be installed.
struct MungeLibrary {
  static constexpr int kSuccess = 0, kSocket = 8, kUidRestriction = 9;
  using Context = void*;

  const SharedLibrary library{"libmunge.so.2", "libmunge2"};
  Context (*const ctx_create)() = library["munge_ctx_create"];
  void (*const ctx_destroy)(Context) = library["munge_ctx_destroy"];
  const char* (*const ctx_strerror)(Context) = library["munge_ctx_strerror"];
  int (*const ctx_set)(Context, int option, ...) = library["munge_ctx_set"];
  int (*const encode)(char** credential, Context, const void* bytes, int length) = library["munge_encode"];
  int (*const decode)(const char* credential, Context, void** bytes, int* length, uid_t*,
                      gid_t*) = library["munge_decode"];
  const char* (*const strerror)(int) = library["munge_strerror"];
};

// Returns the library, which is loaded only once.
const MungeLibrary& munge_library() {
  static const MungeLibrary library;
  return library;
}

class LoadedMunge : public Munge {
 public:
  explicit LoadedMunge(const std::string& socket) {
    if (!context_) throw Error(ErrorCode::unauthorized, "munge: out of memory");
    if (!socket.empty()) check(library_.ctx_set(context_.get(), MungeLibrary::kSocket, socket.c_str()));
    check(library_.ctx_set(context_.get(), MungeLibrary::kUidRestriction, geteuid()));
  }

  std::string encode(const std::string& secret_text) override {
    char* credential = nullptr;
    const int error = library_.encode(&credential, context_.get(), secret_text.data(), int(secret_text.size()));
    const std::string out = credential ? credential : "";
    std::free(credential);
    check(error);
    return out;
  }

  std::string decode(const std::string& credential) override {
    void* bytes = nullptr;
    int length = 0;
    uid_t user = 0;
    gid_t group = 0;
    const int error = library_.decode(credential.c_str(), context_.get(), &bytes, &length, &user, &group);
    const std::string out = bytes ? std::string(static_cast<const char*>(bytes), std::size_t(length)) : "";
    std::free(bytes);
    check(error);
    if (user != geteuid())
      throw Error(ErrorCode::unauthorized, text("munge: user ", user, " made the credential, not ", geteuid()));
    return out;
  }

 private:
  void check(int error) const {
    if (error == MungeLibrary::kSuccess) return;
    const char* const more = library_.ctx_strerror(context_.get());
    throw Error(ErrorCode::unauthorized, text("munge: ", more ? more : library_.strerror(error)));
  }

  const MungeLibrary& library_ = munge_library();
  const std::unique_ptr<void, void (*)(void*)> context_{library_.ctx_create(), library_.ctx_destroy};
};

}  // namespace

std::shared_ptr<Munge> open_munge(const std::string& socket) {
  auto munge = std::make_shared<LoadedMunge>(socket);
  try {
    (void)munge->encode("");
  } catch (const Error& error) {
    throw Error(ErrorCode::unsupported, error.message());
  }
  return munge;
}

std::shared_ptr<Munge> open_slurms_munge() {
  return open_munge(munge_socket(environment));
}

std::string socket_of_auth_info(const std::string& slurm_conf) {
  constexpr std::string_view kKey = "authinfo=", kOption = "socket=";
  std::istringstream lines(slurm_conf);
  for (std::string line; std::getline(lines, line);) {
    std::string lower = line.substr(0, line.find('#'));
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const std::size_t begin = lower.find_first_not_of(" \t");
    if (begin == std::string::npos || !std::string_view(lower).substr(begin).starts_with(kKey)) continue;
    const std::size_t option = lower.find(kOption, begin);
    if (option == std::string::npos) return {};
    const std::size_t path = option + kOption.size();
    return line.substr(path, std::min(line.find_first_of(",; \t#\r\"", path), line.size()) - path);
  }
  return {};
}

std::string munge_socket(const Variables& variables) {
  if (const auto given = variables("MUNGE_SOCKET")) return *given;
  // The last path is for hosts without their own slurm.conf: slurmd stores the configuration that it has received
  // there.
  for (const std::string& path : {variables("SLURM_CONF").value_or(""), std::string("/etc/slurm/slurm.conf"),
                                  std::string("/run/slurm/conf/slurm.conf")}) {
    std::ifstream file(path);
    if (!file) continue;
    std::ostringstream content;
    content << file.rdbuf();
    return socket_of_auth_info(content.str());
  }
  return {};
}

}  // namespace anello::rendezvous
