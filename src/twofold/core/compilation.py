"""Compiled programs kept between runs."""

import os
from pathlib import Path


def enable_compile_cache(folder: str | Path | None = None) -> Path:
    """Keep compiled programs on disk, so that the next process starts at once.

    The folder is the argument, else ``$JAX_COMPILATION_CACHE_DIR``, else ``~/.cache/twofold/jax``.
    """
    import jax

    chosen = folder or os.environ.get("JAX_COMPILATION_CACHE_DIR") or "~/.cache/twofold/jax"
    path = Path(chosen).expanduser()
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
    return path
