"""Snapshots, and everything that moves a head from one to another."""
