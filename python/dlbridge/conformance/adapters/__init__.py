"""One file per library."""
