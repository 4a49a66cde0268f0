"""One folder a framework, named as Python imports it. Only a worker process imports what is inside."""
