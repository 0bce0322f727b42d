// Durations and rates as people write them. Inside the simulator time is microseconds and a rate is bytes per
// microsecond, which is megabytes per second. Pure.
#pragma once
#include <string>
#include <string_view>

namespace anello::bench {

// "15us", "800ns", "1.5ms", "1s". Throws Error{configuration} that names `what`.
double parse_time_us(std::string_view what, std::string_view given);
std::string time_text(double us);

// "25Gbit", "100Mbit/s", "9.3GB", "unlimited"; powers of 1000. Throws Error{configuration} that names `what`.
double parse_rate(std::string_view what, std::string_view given);
std::string rate_text(double bytes_per_us);

}  // namespace anello::bench
