"""Reports: one file per form."""
