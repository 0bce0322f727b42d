// The part of the plugin for NCCL, as its part for devices sees it.
#pragma once
#include "gpu/nccl_table.h"

// Null, with the reason, if NCCL cannot be used.
const AnelloNcclTable* anello_nccl_table(const char** why_not);
