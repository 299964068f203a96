"""`python -m holdfast` is `holdfast`, where that is not on the path."""

from holdfast.cli.main import start

if __name__ == "__main__":
    start()
