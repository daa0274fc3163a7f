"""Thin adapters to other libraries. Each imports its peer only when it is asked for something."""
