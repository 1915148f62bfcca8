"""`python -m scail`."""

from scail.cli import main

if __name__ == "__main__":
    main()
