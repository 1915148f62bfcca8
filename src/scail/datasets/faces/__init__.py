"""Faces, found in photographs and cropped."""
