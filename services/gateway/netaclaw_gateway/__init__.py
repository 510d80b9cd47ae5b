"""The suite's public face: passes public calls on to the service that answers them, and nothing else."""
