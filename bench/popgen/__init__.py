"""The load generator for pops: pops.c."""
