"""Tables and figures, from results only, never from models."""
