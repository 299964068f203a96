"""`python -m holdfast` is `holdfast`, where that is not on the path."""

import sys

from holdfast.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
