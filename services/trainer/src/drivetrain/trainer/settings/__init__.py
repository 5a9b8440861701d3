"""The trainer's settings."""

from drivetrain.trainer.settings.settings import TrainerSettings

__all__ = ["TrainerSettings"]
