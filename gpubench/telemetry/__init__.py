"""What the devices did meanwhile: sampled by a process of its own, attributed to rounds afterwards."""
