"""What `holdfast.escaping` does, under the name that commands know it by."""

from holdfast.escaping import escaped, escaped_line, quoted

__all__ = ["escaped", "escaped_line", "quoted"]
