"""Policy sections as sentences for people."""
