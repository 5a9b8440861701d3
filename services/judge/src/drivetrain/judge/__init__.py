"""Drivetrain's judge: every next state of a turn becomes a reward with its evidence, and hints."""
