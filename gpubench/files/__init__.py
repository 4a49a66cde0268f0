"""Runs on disk: written whole or not at all, read without trust, handed on as one file."""
