"""Embed filters into the files of a table: new files beside the old ones, exchanged by one commit."""
