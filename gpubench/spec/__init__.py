"""The words that the harness and the workers both speak. Standard library only."""
