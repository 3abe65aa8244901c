"""Policies of other projects as sections of a LoadPolicy: a module for each project, and what they share."""
