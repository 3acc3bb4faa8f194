"""Comparisons that somebody watches, or takes part in: one hyperplane, the race, and the blind one."""
