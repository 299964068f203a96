"""Holdfast inside the frameworks that agents are built with."""
