#include "rendezvous/join/pmix.hpp"

#include <pmix.h>
#include <anello/error.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "rendezvous/join/manager_connection.hpp"
#include "rendezvous/join/shared_library.hpp"
#include "rendezvous/protocol/describe.hpp"
#include "rendezvous/protocol/protocol.hpp"
#include "ring/base/config.hpp"
#include "ring/base/mutex.hpp"
#include "ring/base/text.hpp"
#include "ring/base/thread.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;

struct PmixLibrary {
  const SharedLibrary library{"libpmix.so.2", "libpmix2"};
  const decltype(&PMIx_Init) init = library["PMIx_Init"];
  const decltype(&PMIx_Finalize) finalize = library["PMIx_Finalize"];
  const decltype(&PMIx_Put) put = library["PMIx_Put"];
  const decltype(&PMIx_Commit) commit = library["PMIx_Commit"];
  const decltype(&PMIx_Fence) fence = library["PMIx_Fence"];
  const decltype(&PMIx_Get) get = library["PMIx_Get"];
  const decltype(&PMIx_Error_string) error_string = library["PMIx_Error_string"];
};

struct PmixConnection : ManagerConnection {
  PmixConnection() : ManagerConnection("PMIx") {}
  std::optional<PmixLibrary> library;  // loaded for the first connection
  pmix_proc_t self{};
  int size = 0;
  std::atomic<bool> hung = false;  // true if a call did not return in time; it may still run in its thread
};

PmixConnection& pmix_connection() {
  // Never destroyed, because it is used at exit, when static objects may be gone.
  static auto* const only = new PmixConnection;
  return *only;
}

std::string pmix_manager_name() {
  if (environment("OMPI_COMM_WORLD_SIZE")) return "Open MPI's mpirun";
  return environment("SLURM_STEP_ID") ? "Slurm's srun" : "the process manager";
}

// Runs `call` in its own thread, because the library's calls block without a limit. If the call does not return in
// time, the thread goes on. So `call` must own everything that it uses.
template <class Call>
pmix_status_t within(milliseconds limit, Call call) {
  struct Shared {
    Mutex mutex;
    std::condition_variable changed;
    std::optional<pmix_status_t> status ANELLO_GUARDED_BY(mutex);
  };
  const auto shared = std::make_shared<Shared>();
  quiet_thread("a call over PMIx", [shared, call]() mutable {
    const pmix_status_t status = call();
    const MutexLock lock(shared->mutex);
    shared->status = status;
    shared->changed.notify_one();
  }).detach();
  MutexLock lock(shared->mutex);
  if (shared->changed.wait_for(lock, limit,
                               [&]() ANELLO_REQUIRES(shared->mutex) { return shared->status.has_value(); }))
    return *shared->status;
  pmix_connection().hung = true;
  throw Error(ErrorCode::timed_out, text(pmix_manager_name(), ": no answer over PMIx within ", seconds(limit),
                                         "; a process of the job may have ended or may not call init()"));
}

void require_success(pmix_status_t status, std::string_view attempt, ErrorCode code = ErrorCode::network) {
  if (status != PMIX_SUCCESS)
    throw Error(code, text(pmix_manager_name(), ": ", attempt, ": ", pmix_connection().library->error_string(status)));
}

pmix_info_t option(const char* name) {
  pmix_info_t out{};
  std::strncpy(out.key, name, sizeof out.key - 1);
  out.value.type = PMIX_BOOL;
  out.value.data.flag = true;
  return out;
}

// Returns the value of `key` that process `rank` or the manager has put. On failure returns an empty result and sets
// `status`. Looks only for values on this host: the fence has brought all values here, and waiting for other values
// would take long.
std::optional<pmix_value_t> get_value(pmix_rank_t rank, const std::string& key, milliseconds limit,
                                      pmix_status_t& status) {
  struct Question {
    pmix_proc_t proc{};
    std::string key;
    pmix_value_t* value = nullptr;
  };
  const auto question = std::make_shared<Question>();
  question->proc = pmix_connection().self;
  question->proc.rank = rank;
  question->key = key;
  status = within(limit, [question, get = pmix_connection().library->get] {
    const pmix_info_t here = option(PMIX_OPTIONAL);
    return get(&question->proc, question->key.c_str(), &here, 1, &question->value);
  });
  if (status != PMIX_SUCCESS || !question->value) return std::nullopt;
  const pmix_value_t value = *question->value;
  std::free(question->value);  // frees only the struct, because its contents belong to `value` now
  return value;
}

class PmixSpace : public ManagerSpace {
 public:
  PmixSpace(ManagerConnection::Turn turn, milliseconds limit) : ManagerSpace(std::move(turn)), limit_(limit) {}

  int rank() const override { return int(only_.self.rank); }
  int size() const override { return only_.size; }
  std::string name() const override { return own_name(only_.self.nspace); }

  void put(const std::string& key, const std::string& value) override {
    struct Pair {
      std::string key, value;
    };
    const auto pair = std::make_shared<Pair>(Pair{own_key(key), value});
    const auto put = only_.library->put;
    const auto commit = only_.library->commit;
    const pmix_status_t status = within(limit_, [pair, put, commit] {
      pmix_value_t data{};
      data.type = PMIX_STRING;
      data.data.string = pair->value.data();
      const pmix_status_t result = put(PMIX_GLOBAL, pair->key.c_str(), &data);
      return result == PMIX_SUCCESS ? commit() : result;
    });
    require_success(status, text("putting PMIx key '", key, "'"));
  }

  void fence() override {
    const pmix_status_t status = within(limit_, [fence = only_.library->fence] {
      const pmix_info_t collect = option(PMIX_COLLECT_DATA);
      return fence(nullptr, 0, &collect, 1);
    });
    require_success(status, "a fence of PMIx");
    passed_fence();
  }

  std::string get(const std::string& key) override {
    pmix_status_t status = PMIX_SUCCESS;
    // Open MPI's mpirun does not search all processes, so this loop does.
    for (int putter = 0; putter < only_.size; putter++)
      if (const auto value = get_value(pmix_rank_t(putter), own_key(key), limit_, status))
        return string_of(*value, key);
    throw Error(ErrorCode::protocol, text(pmix_manager_name(), ": no process of the job has put PMIx key '", key,
                                          "': ", only_.library->error_string(status)));
  }

 private:
  static std::string string_of(const pmix_value_t& value, const std::string& key) {
    if (value.type != PMIX_STRING || !value.data.string)
      throw Error(ErrorCode::protocol, text(pmix_manager_name(), ": PMIx key '", key, "' is not a string"));
    const std::string out = value.data.string;
    std::free(value.data.string);
    return out;
  }

  PmixConnection& only_ = pmix_connection();
  const milliseconds limit_;
};

void finalize_pmix_at_exit() {
  const PmixConnection& only = pmix_connection();
  if (only.is_own() && !only.hung) only.library->finalize(nullptr, 0);
}

void connect(milliseconds limit) {
  PmixConnection& only = pmix_connection();
  if (!only.library) only.library.emplace();
  const auto self = std::make_shared<pmix_proc_t>();
  const pmix_status_t connected =
      within(limit, [self, init = only.library->init] { return init(self.get(), nullptr, 0); });
  require_success(connected, "connecting over PMIx");
  only.opened();
  std::atexit(finalize_pmix_at_exit);
  only.self = *self;
  pmix_status_t status = PMIX_SUCCESS;
  const auto size = get_value(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, limit, status);
  require_success(status, "asking PMIx for the job's size", ErrorCode::protocol);
  if (!size || size->type != PMIX_UINT32 || size->data.uint32 > kMaxRanks || self->rank >= size->data.uint32)
    throw Error(ErrorCode::protocol, text(pmix_manager_name(), ": PMIx gave no valid number of processes"));
  only.size = int(size->data.uint32);
}

}  // namespace

std::unique_ptr<KeyValueSpace> open_pmix(milliseconds limit) {
  if (!environment("PMIX_RANK") || !environment("PMIX_NAMESPACE")) return nullptr;
  PmixConnection& only = pmix_connection();
  ManagerConnection::Turn turn(only);
  if (only.hung) throw Error(ErrorCode::network, "a call of PMIx's library in this process does not return");
  if (only.size == 0) connect(limit);
  return std::make_unique<PmixSpace>(std::move(turn), limit);
}

}  // namespace anello::rendezvous
