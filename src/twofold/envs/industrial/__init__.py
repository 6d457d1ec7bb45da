"""The industrial benchmark (Hein et al. 2017), after the authors' Python version (MIT licence)."""
