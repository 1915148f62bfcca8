"""`python -m scail`."""

from scail.cli.main import main

if __name__ == "__main__":
    main()
