"""Conditional writes to S3 and compatible stores, through boto3.

`client` and `requests` come first, then `attributes`, `access` and `head`, then `upload`, `probe`, `proof` and
`conditions`, then `verify` and `rewrite`.
"""
