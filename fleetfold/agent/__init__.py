"""The reference agent: what a machine says about itself, and how it says it."""
