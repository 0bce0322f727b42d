"""The methods that a compressor must have, in any framework."""
from __future__ import annotations

from typing import Any


def checked(compression: Any) -> Any:
    """Returns the compressor. Raises ValueError if the object is not a compressor."""
    if not (hasattr(compression, "compress") and hasattr(compression, "decompress")):
        raise ValueError("compression must be hvd.Compression.none, .fp16 or .bf16, or have compress() and "
                         f"decompress(), but is {compression!r}")
    return compression
