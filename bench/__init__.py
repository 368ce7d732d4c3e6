"""Speed, measured beside the rival in one process."""
