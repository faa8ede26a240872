"""What `mkdocs.yml` adds to mkdocs: pages from the command line and from the project's own files, and docstrings."""
