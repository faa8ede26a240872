"""Object stores, read and written by way of obstore.

`location`, `options` and `errors` come first, then `source`, `listing` and the rewrites, and `s3/`, which uses boto3.
"""
