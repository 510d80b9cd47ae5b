"""Delegation: one delegate_* call is a batch, each goal in it a task with a worker process of its own."""
