"""Bytes that must survive: files written in one step, locks, the store of states, checkpoints."""
