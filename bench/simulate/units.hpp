// Durations and rates as text. In the simulator, times are in microseconds and rates in bytes per microsecond, which is
// megabytes per second. Pure.
#pragma once
#include <string>
#include <string_view>

namespace anello::bench {

// Parses "15us", "800ns", "1.5ms", "1s". Throws Error{configuration}; `what`: the name of the value in its message.
double parse_time_us(std::string_view what, std::string_view given);
std::string time_text(double us);  // returns text that parse_time_us() accepts

// Parses "25Gbit", "100Mbit/s", "9.3GB", "unlimited"; units are powers of 1000. Throws Error{configuration}; `what`:
// the name of the value in its message.
double parse_rate(std::string_view what, std::string_view given);
std::string rate_text(double bytes_per_us);  // returns text that parse_rate() accepts

}  // namespace anello::bench
