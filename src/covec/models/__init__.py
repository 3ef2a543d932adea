"""Models that covec reads and edits: loading them, the names of their sites, and which tokens are meant."""
