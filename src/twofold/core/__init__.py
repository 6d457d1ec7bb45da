"""What every package may use: array types, numerics, files, resuming, devices, jobs.

Its modules are imported one by one (``twofold.core.naming``), so that none loads another's needs.
"""

__all__: list[str] = []
