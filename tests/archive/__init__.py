"""`mantissa archive`: snapshots of servers in a folder."""
