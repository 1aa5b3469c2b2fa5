"""Makes a running engine from files and wishes, and changes it to another plan while it runs."""
