"""What a process of this suite needs to live; no domain noun, three users for every module."""

import os

# No process of ours forks and goes on in the child with grpc; its fork handlers would only complain at each exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

# Its core would write lines of its own to stderr, beside our structured ones; what matters reaches us as errors.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
