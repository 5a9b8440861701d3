"""Where rollouts run: each backend leases sandboxes under one interface."""
