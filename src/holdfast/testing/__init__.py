"""What tests of holdfast, and of adapters that others write for it, can build on.

Shipped with the package, so that a third party's adapter proves itself by the same suites.
Nothing outside of tests imports it, and importing it starts and needs nothing: servers and
drivers are loaded by the functions that use them.
"""
