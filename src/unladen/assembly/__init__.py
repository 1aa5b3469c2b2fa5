"""From files and wishes to a running engine, and from that to another one."""
