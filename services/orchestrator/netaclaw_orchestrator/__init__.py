"""The service that decides and journals: turns, their live stream, and delegation."""
