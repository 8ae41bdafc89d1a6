"""The reports: one file per format."""
