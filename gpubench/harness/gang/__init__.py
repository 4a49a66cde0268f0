"""A gang: the processes of one launch, started together, ordered together, and ended together."""
