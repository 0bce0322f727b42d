#include "rendezvous/join/invitation.hpp"

#include <algorithm>
#include <anello/error.hpp>
#include <utility>

#include "rendezvous/protocol/interruption.hpp"
#include "ring/base/log.hpp"
#include "ring/base/text.hpp"
#include "ring/base/wire.hpp"
#include "ring/net/auth.hpp"
#include "ring/net/handshake.hpp"

namespace anello::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kVersion = "anello credential 1";
constexpr milliseconds kFirstPause{20}, kLastPause{500};
// How many pauses an attempt waits for a source that does not answer; on a busy host such a source may be the right
// one.
constexpr int kPatience = 10;

// Returns an empty result if the source has no invitation, or an invitation to another job. Then `tried` has the
// reason.
std::optional<Invitation> ask(const InvitationSource& source, const std::string& job, milliseconds limit,
                              std::string& tried) try {
  Invitation invitation = source.ask(limit);
  if (invitation.job != job)
    throw Error(ErrorCode::protocol,
                text("it belongs to job '", printable(invitation.job), "', but this rank belongs to '", job, "'"));
  return invitation;
} catch (const Error& error) {
  tried = text(source.name, " (", error.message(), ")");
  return std::nullopt;
}

}  // namespace

std::string encode(const Invitation& invitation) {
  Writer out;
  out.str(kVersion).str(invitation.job).str(invitation.secret).u16(invitation.port);
  return std::move(out).take();
}

Invitation decode_invitation(std::string_view bytes) {
  Reader reader("credential", bytes);
  if (reader.str(kVersion.size()) != kVersion)
    throw Error(ErrorCode::protocol, "the credential was not made by this release of anello");
  Invitation out;
  out.job = reader.str(net::kMaxJobBytes);
  out.secret = reader.str(net::kMaxSecretBytes);
  out.port = reader.u16();
  reader.finish();
  return out;
}

std::optional<Invitation> find_invitation(const std::string& job, const InvitationSource& source,
                                          steady_clock::time_point deadline, std::string& tried,
                                          milliseconds warn_after) {
  const auto warn_at = steady_clock::now() + warn_after;
  bool warned = false;
  for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLastPause)) {
    const auto left = [&] { return std::chrono::ceil<milliseconds>(deadline - steady_clock::now()); };
    const milliseconds limit = std::clamp(left(), kPatience * kFirstPause, kPatience * pause);
    if (auto found = ask(source, job, limit, tried)) return found;
    if (steady_clock::now() >= warn_at && !std::exchange(warned, true))
      log(Severity::warning, text("waiting for the first rank of job '", job,
                                  "', which has not been started, has ended or is slow; tried ", tried));
    if (left() <= pause) return std::nullopt;
    Interruption::sleep(pause);
  }
}

}  // namespace anello::rendezvous
