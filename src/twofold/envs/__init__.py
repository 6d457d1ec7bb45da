"""Systems to learn from: pure ``reset`` and ``step``, toy problems, and Gymnasium."""
