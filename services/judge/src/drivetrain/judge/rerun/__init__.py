"""`drivetrain judge rerun`: recorded turns scored again by another judge, and how the two differ."""
