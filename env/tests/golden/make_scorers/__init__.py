"""Makes the golden files of the reward scorers; see `__main__`."""
