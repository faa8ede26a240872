"""The page that draws reports: one static file of markup, style and script, with the report in it as JSON."""
