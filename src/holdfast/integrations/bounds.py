"""What one transaction takes, in this process and on a server."""

from typing import Final

TOGETHER_BYTES: Final = 32 << 20
TOGETHER_FILES: Final = 4096
"""Less bytes than this, and no more files."""
