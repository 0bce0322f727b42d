// A link through shared memory: a pipe in each direction, both in one memory file, and a bell (an eventfd) to wake each
// side. Large runs in memory from anello::allocate are not copied: the link sends a reference, and the other side maps
// that memory and reads it there. The link's window (window.hpp) shows the other side whole tensors. Memory does not
// show that a peer has died; only the control plane detects it. If this process lacks a resource for passing or mapping
// memory, the link throws a std::runtime_error, not an Error.
#pragma once
#include <array>
#include <memory>

#include "ring/link/memory_link.hpp"
#include "ring/shm/byte_pipe.hpp"
#include "ring/shm/memory_file.hpp"
#include "ring/shm/region_files.hpp"
#include "ring/shm/window.hpp"

namespace anello::shm {

class ShmLink final : public link::MemoryLink {
 public:
  // Returns the size of the memory for two pipes of `pipe_bytes` each, a multiple of kLineBytes.
  static std::size_t file_bytes(std::size_t pipe_bytes);

  enum class Side { maker, taker };
  // `bell`: the other side's bell. `fd_socket`: one end of a Unix socket, on which files are passed.
  ShmLink(MemoryFile file, std::size_t pipe_bytes, Side side, Descriptor bell, Descriptor fd_socket);
  ~ShmLink() override { out_.revoke(); }

  std::size_t send_from(std::span<const ConstBytes> pieces) override;
  std::size_t recv_into(std::span<const Bytes> pieces) override;
  bool prefers_one_piece() const override { return false; }
  std::size_t send_bytes() const override { return out_.pending() > 0 ? MemoryLink::send_bytes() : kBiteBytes; }
  std::optional<Bytes> room(std::size_t bytes) override;
  void put(std::size_t bytes) override;
  Bytes peek() override;
  void consume(std::size_t bytes) override;
  void begin(bool sending, bool may_refer) override;
  bool has_arrived() override;
  std::size_t reply_bytes() const override { return pipe_bytes_; }
  void keep() override { out_.keep(); }
  Bytes replies() override;
  void take(std::size_t bytes) override { out_.take(bytes); }
  bool want(link::Wanted wanted, link::Waiter& waiter) override;
  void revoke() override { out_.revoke(); }
  Window* window() override { return &window_; }

 private:
  // The maximum number of bytes moved at once. It is small, so that the other side can begin before this side has
  // ended.
  static constexpr std::size_t kBiteBytes = 32 << 10;
  // Runs below this size are copied, because copying is faster than waiting until the reader has taken them.
  static constexpr std::size_t kMinReferredBytes = 32 << 10;
  // Data below this size is copied, so that one call sends it together with the signature.
  static constexpr std::size_t kMinMadeBytes = 8 << 10;

  bool refer(Loan loan);
  void end_loans();

  MemoryFile file_;
  std::size_t pipe_bytes_;
  PipeWriter out_;
  PipeReader in_;
  Descriptor bell_;
  RegionFiles regions_;
  Window window_;
  bool may_refer_ = false;
  std::array<std::shared_ptr<const void>, PipeState::kReferences> lent_;  // lent memory, by number of the reference
  std::uint64_t loans_ = 0, ended_loans_ = 0;
};

}  // namespace anello::shm
