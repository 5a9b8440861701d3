"""Sandboxes on this machine: folders and processes, confined with bubblewrap where it works."""
