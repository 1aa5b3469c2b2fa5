"""What the backends for graphics processors share."""
