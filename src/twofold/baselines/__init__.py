"""What other people would use instead."""
