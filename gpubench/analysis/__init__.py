"""What records mean: medians, intervals, scaling, doubts, verdicts. Reads records, and nothing else."""
