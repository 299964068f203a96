"""Objects: bytes under the name of their hash, on their way in, out, and out of use."""
