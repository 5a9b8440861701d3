"""Sandboxes as pods: one Job for each, driven through the cluster's API."""
