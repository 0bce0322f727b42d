// A training state in a file: all that is needed to go on as if nothing had happened, on any number of ranks.
//
// Layout, little-endian: "ANELLOCK", version (u32), bytes that follow up to the checksum (u64); count of facts (u32)
// and each as two strings (u32 length, bytes); epoch (u64); count of tensors (u32) and each as count of elements (u64)
// and f32s; CRC-32 of all before it (u32). The facts are what two runs must share for one to continue the other. Called
// on one rank, blocking. Errors are Error{file} with the file's name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>

#include "trainer/backend.hpp"
#include "trainer/options.hpp"

namespace anello::trainer {

// Fails early, before hours of training, if no checkpoint could be written there.
void require_writable(const std::filesystem::path& path);

// Replaces the file at once or not at all, also if the machine stops at any moment: the state is written beside it,
// brought to the disk, and renamed over it. The tensors lie in the backend's memory.
void write_checkpoint(const std::filesystem::path& path, const Facts& facts, std::uint64_t epoch, Backend& backend,
                      std::span<const std::span<float>> tensors);

// Fills the tensors and returns the epoch. Refuses what is not a checkpoint, cut off, changed, or of a different run;
// the tensors are then untouched.
std::uint64_t read_checkpoint(const std::filesystem::path& path, const Facts& facts, Backend& backend,
                              std::span<const std::span<float>> tensors);

}  // namespace anello::trainer
