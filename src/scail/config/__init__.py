"""What can be asked for: experiments, schedules and the named recipes. Nothing here imports torch."""
