"""The dialects, one folder each, found by scanning; none knows another."""
