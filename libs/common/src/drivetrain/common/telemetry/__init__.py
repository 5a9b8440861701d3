"""Logs, metrics and the admin listener; domain code never imports this."""
