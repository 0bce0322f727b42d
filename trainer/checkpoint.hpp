// Reads and writes checkpoints. Layout of the file, little-endian: "ANELLOCK", version (u32), number of bytes from here
// to the checksum (u64); two lists of facts, each as a count (u32) and for each fact two strings (u32 length, bytes);
// the number of complete epochs, and of complete steps in the epoch after them (u64 each); the sums of the metrics over
// these steps (9 f64); two lists of tensors, each as a count (u32) and for each tensor its number of elements (u64) and
// f32s; CRC-32 of all bytes before it (u32). The first list of facts has the options that must be equal if one run
// continues another; the second has further facts that matter. The second list of tensors has the rounding errors that
// error feedback has kept, one tensor for each rank. Called on one rank; blocks. Errors are Error{file} with the file's
// name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "trainer/backend.hpp"
#include "trainer/metrics.hpp"
#include "trainer/options.hpp"

namespace anello::trainer {

// Throws if no checkpoint can be written to `path`. A training calls this at the start, so that it does not fail after
// hours.
void require_writable(const std::filesystem::path& path);

// How much of a training is done.
struct Progress {
  std::uint64_t epoch = 0;  // complete epochs
  std::uint64_t step = 0;   // complete steps of the next epoch
  Metrics trained = {};     // sums over the steps of the incomplete epoch
};

using Residuals = std::vector<std::vector<float>>;  // by rank; see Gradients::residuals()

// Replaces the file completely or not at all, even if the machine stops: writes the state to a second file, flushes
// this file to the disk, and renames it to `path`. The tensors are in the backend's memory.
void write_checkpoint(const std::filesystem::path& path, const RunFacts& facts, const Progress& progress,
                      Backend& backend, std::span<const std::span<float>> tensors, const Residuals& residuals = {});

struct SavedState {
  Progress progress;
  Facts adjustable;  // the adjustable facts of the run that wrote the file; they may differ from the facts of this run
  Residuals residuals;
};

// Fills the tensors and returns the rest of the file. Throws, and leaves the tensors unchanged, if the file is not a
// checkpoint, is cut off or changed, or belongs to a run with different `lasting` facts.
SavedState read_checkpoint(const std::filesystem::path& path, const Facts& lasting, Backend& backend,
                           std::span<const std::span<float>> tensors);

}  // namespace anello::trainer
