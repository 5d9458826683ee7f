"""The operating system: signals, streams, full and failing disks, files that are no files."""
