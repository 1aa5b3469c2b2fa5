"""What architectures are made of; never an architecture itself."""
