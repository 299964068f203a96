"""Holdfast inside the frameworks that agents are built with."""

from typing import Final

TOGETHER_BYTES: Final = 32 << 20
TOGETHER_FILES: Final = 4096
"""What one transaction takes, in this process and on a server: less bytes than this, and no more
files."""
