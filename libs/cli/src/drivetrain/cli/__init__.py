"""The `drivetrain` command: `up`, `demo`, `status`, `dead`, `run`."""
