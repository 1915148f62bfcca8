"""Files that nobody vouches for: everything that scail reads from a disk, changed at random.

Whatever a reader is given, it gives a value or an error of one line that names the file, in bounded time and memory.
`make fuzz` tries many; `make test` a few, the same ones each time.
"""
