"""What the service asks of a serving engine, one module per engine."""
