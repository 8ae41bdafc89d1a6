"""The adapters of the kit."""
