"""The benchmark: experiments settled, their trajectories run through the store, and measured."""
