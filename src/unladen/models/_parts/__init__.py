"""The parts that architectures are built from. No architecture is defined here."""
