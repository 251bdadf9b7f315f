"""Gains as a dataset: read from a folder or the Hub, written in mteb's layout with a card."""
