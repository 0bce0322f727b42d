// A training state in a file: all that is needed to resume a training, on any number of ranks.
//
// Layout, little-endian: "ANELLOCK", version (u32), bytes that follow up to the checksum (u64); count of facts (u32)
// and each as two strings (u32 length, bytes); epoch (u64); count of tensors (u32) and each as count of elements (u64)
// and f32s; CRC-32 of all before it (u32). The facts are the options that two runs must share for one to continue the
// other. Called on one rank; blocks. Errors are Error{file} with the file's name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include "trainer/backend.hpp"
#include "trainer/options.hpp"

namespace anello::trainer {

// Throws if no checkpoint could be written there: better at the start than after hours of training.
void require_writable(const std::filesystem::path& path);

// Replaces the file at once or not at all, even if the machine stops: writes the state beside it, brings that to the
// disk, and renames it over the file. The tensors lie in the backend's memory.
void write_checkpoint(const std::filesystem::path& path, const Facts& facts, std::uint64_t epoch, Backend& backend,
                      std::span<const std::span<float>> tensors);

// Fills the tensors and returns the epoch. Refuses a file that is not a checkpoint, is cut off or changed, or belongs
// to a different run; the tensors are then untouched.
std::uint64_t read_checkpoint(const std::filesystem::path& path, const Facts& facts, Backend& backend,
                              std::span<const std::span<float>> tensors);

}  // namespace anello::trainer
