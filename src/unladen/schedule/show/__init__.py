"""Shows a blueprint: as tables, as JSON, as a picture."""
