"""Object stores, read and written through obstore.

`location`, `options` and `errors` come first, then `source`, `listing` and the rewrites, and `s3/`, which uses boto3.
"""
