// Every parser of bytes that come from outside, as a function for a fuzzer: for any bytes the function returns a value
// or throws Error{protocol, configuration, file}. Anything else (another exception, a broken guarantee, a sanitizer's
// finding) ends the process.
#pragma once
#include <array>
#include <string_view>

namespace anello::fuzz {

void control(std::string_view bytes);     // control messages, and a FailureDetector's handling of them
void handshake(std::string_view bytes);   // the first message of a connection, and its proof
void rendezvous(std::string_view bytes);  // requests to the server, and its replies
void pmi(std::string_view bytes);         // lines of a process manager
void signature(std::string_view bytes);   // the signature of an operation
void peer_info(std::string_view bytes);   // a rank's description of itself
void addresses(std::string_view bytes);   // host:port, ranges of ports, names of interfaces
void table(std::string_view bytes);       // a table of algorithms
void digits(std::string_view bytes);      // a data file, plain or compressed
// The first byte chooses one of four files; the other bytes are the content of this file.
void mnist(std::string_view bytes);
void checkpoint(std::string_view bytes);  // if the first byte is odd, the rest in a right frame

struct Parser {
  std::string_view name;
  void (*parse)(std::string_view bytes);
};
inline constexpr std::array<Parser, 11> kParsers{{{"control", control},
                                                  {"handshake", handshake},
                                                  {"rendezvous", rendezvous},
                                                  {"pmi", pmi},
                                                  {"signature", signature},
                                                  {"peer_info", peer_info},
                                                  {"addresses", addresses},
                                                  {"table", table},
                                                  {"digits", digits},
                                                  {"mnist", mnist},
                                                  {"checkpoint", checkpoint}}};

}  // namespace anello::fuzz
