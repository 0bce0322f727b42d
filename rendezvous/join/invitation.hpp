// An invitation: the data that a rank needs to join its job. Also the search for an invitation at one place.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace anello::rendezvous {

struct Invitation {
  std::string job, secret;
  std::uint16_t port = 0;  // port of the rendezvous server on the inviting host
  std::string host;        // the inviting host's address, as this process reaches it; numeric; not sent
};

std::string encode(const Invitation& invitation);
Invitation decode_invitation(std::string_view bytes);  // throws Error{protocol}

struct InvitationSource {
  std::string name;  // name of the source, for error messages
  // Throws Error if the source has no invitation now, or never will have one.
  std::function<Invitation(std::chrono::milliseconds limit)> ask;
};

// Asks the source repeatedly until it gives the invitation to this job, because the inviting rank may start later.
// After the deadline returns an empty result, and `tried` has the source's last error. Blocks until at most 200 ms
// after the deadline, so that the last answer can still arrive. Warns once, after `warn_after`.
std::optional<Invitation> find_invitation(const std::string& job, const InvitationSource& source,
                                          std::chrono::steady_clock::time_point deadline, std::string& tried,
                                          std::chrono::milliseconds warn_after = std::chrono::seconds(5));

}  // namespace anello::rendezvous
