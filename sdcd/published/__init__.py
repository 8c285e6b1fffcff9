"""The published tables and run logs."""
