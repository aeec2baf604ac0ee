"""One module for each trainer. Each imports its trainer, and nothing here does so by itself."""
