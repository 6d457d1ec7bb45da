"""What all packages share: files, resuming, jobs, devices, where a result comes from."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.core.compilation import enable_compile_cache
    from twofold.core.jobs import Job, JobError, run_jobs
    from twofold.core.persistence import FileFormatError, fingerprint
    from twofold.core.resume import OtherRunError, WorkFile, claim_folder

__all__ = [
    "FileFormatError",
    "Job",
    "JobError",
    "OtherRunError",
    "WorkFile",
    "claim_folder",
    "enable_compile_cache",
    "fingerprint",
    "run_jobs",
]

# Imported when they are first asked for: modules of this package import each other.
_HOMES = {
    "FileFormatError": "persistence",
    "Job": "jobs",
    "JobError": "jobs",
    "OtherRunError": "resume",
    "WorkFile": "resume",
    "claim_folder": "resume",
    "enable_compile_cache": "compilation",
    "fingerprint": "persistence",
    "run_jobs": "jobs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'twofold.core' has no attribute {name!r}")
    return getattr(import_module(f"twofold.core.{_HOMES[name]}"), name)
