"""One process of a case: orders in, messages out. Runs in the framework's own Python, standard library aside."""
