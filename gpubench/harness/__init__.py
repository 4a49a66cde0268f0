"""What needs the machine: which cases there are, who runs them, and what became of them. Imports no framework."""
