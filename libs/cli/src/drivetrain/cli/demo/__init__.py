"""`drivetrain demo`: a scripted person with a taste talks to a real model, objects in words, and the model adapts."""
